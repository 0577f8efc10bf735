// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "state.hpp"

// Names for CUDA_API_PER_THREAD_DEFAULT_STREAM: stream 0 is the thread's own default stream.

namespace {

cudaStream_t own(cudaStream_t s) { return s ? s : cudaStreamPerThread; }

}  // namespace

#define WITH_OWN_STREAM(name, parameters, arguments)                                                         \
    [[gnu::visibility("default")]] cudaError_t name##_ptsz parameters { return name arguments; }

extern "C" {

WITH_OWN_STREAM(cudaStreamSynchronize, (cudaStream_t s), (own(s)))
WITH_OWN_STREAM(cudaStreamQuery, (cudaStream_t s), (own(s)))
WITH_OWN_STREAM(cudaStreamWaitEvent, (cudaStream_t s, cudaEvent_t e, unsigned f), (own(s), e, f))
WITH_OWN_STREAM(cudaStreamGetId, (cudaStream_t s, unsigned long long* id), (own(s), id))
WITH_OWN_STREAM(cudaStreamGetFlags, (cudaStream_t s, unsigned* f), (own(s), f))
WITH_OWN_STREAM(cudaStreamGetPriority, (cudaStream_t s, int* p), (own(s), p))
WITH_OWN_STREAM(cudaStreamGetDevice, (cudaStream_t s, int* d), (own(s), d))
WITH_OWN_STREAM(cudaStreamIsCapturing, (cudaStream_t s, cudaStreamCaptureStatus* c), (own(s), c))
WITH_OWN_STREAM(cudaStreamBeginCapture, (cudaStream_t s, cudaStreamCaptureMode m), (own(s), m))
WITH_OWN_STREAM(cudaStreamEndCapture, (cudaStream_t s, cudaGraph_t* g), (own(s), g))
WITH_OWN_STREAM(cudaGraphLaunch, (cudaGraphExec_t e, cudaStream_t s), (e, own(s)))
WITH_OWN_STREAM(cudaGraphUpload, (cudaGraphExec_t e, cudaStream_t s), (e, own(s)))
WITH_OWN_STREAM(cudaGraphInstantiateWithParams,
                (cudaGraphExec_t * e, cudaGraph_t g, cudaGraphInstantiateParams* p), (e, g, p))
WITH_OWN_STREAM(cudaStreamAttachMemAsync, (cudaStream_t s, void* p, size_t n, unsigned f), (own(s), p, n, f))
WITH_OWN_STREAM(cudaLaunchHostFunc, (cudaStream_t s, cudaHostFn_t f, void* d), (own(s), f, d))
WITH_OWN_STREAM(cudaStreamAddCallback, (cudaStream_t s, cudaStreamCallback_t f, void* d, unsigned n),
                (own(s), f, d, n))
WITH_OWN_STREAM(cudaEventRecord, (cudaEvent_t e, cudaStream_t s), (e, own(s)))
WITH_OWN_STREAM(cudaEventRecordWithFlags, (cudaEvent_t e, cudaStream_t s, unsigned f), (e, own(s), f))
WITH_OWN_STREAM(cudaMemcpyAsync, (void* to, void const* from, size_t n, cudaMemcpyKind k, cudaStream_t s),
                (to, from, n, k, own(s)))
WITH_OWN_STREAM(cudaMemsetAsync, (void* to, int v, size_t n, cudaStream_t s), (to, v, n, own(s)))
WITH_OWN_STREAM(cudaMallocAsync, (void** p, size_t n, cudaStream_t s), (p, n, own(s)))
WITH_OWN_STREAM(cudaMallocFromPoolAsync, (void** p, size_t n, cudaMemPool_t m, cudaStream_t s),
                (p, n, m, own(s)))
WITH_OWN_STREAM(cudaFreeAsync, (void* p, cudaStream_t s), (p, own(s)))
#if CUDART_VERSION >= 13000
WITH_OWN_STREAM(cudaStreamGetCaptureInfo,
                (cudaStream_t s, cudaStreamCaptureStatus* c, unsigned long long* i, cudaGraph_t* g,
                 cudaGraphNode_t const** n, cudaGraphEdgeData const** d, size_t* k),
                (own(s), c, i, g, n, d, k))
WITH_OWN_STREAM(cudaStreamUpdateCaptureDependencies,
                (cudaStream_t s, cudaGraphNode_t* n, cudaGraphEdgeData const* d, size_t k, unsigned f),
                (own(s), n, d, k, f))
#else
WITH_OWN_STREAM(cudaStreamGetCaptureInfo_v2,
                (cudaStream_t s, cudaStreamCaptureStatus* c, unsigned long long* i, cudaGraph_t* g,
                 cudaGraphNode_t const** n, size_t* k),
                (own(s), c, i, g, n, k))
#endif

}  // extern "C"
