// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Fake NCCL, whose ranks are threads of this program on the simulated runtime. Calls behave like those of nonblocking communicators: each
// is in progress until all ranks have made it, and no other call is allowed before.
#include "support/fake_nccl.hpp"

#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <cuota/runtime/event.hpp>
#include <cuota/runtime/for_each_index.hpp>
#include <cuota/runtime/stream.hpp>

fake_nccl_state fake_nccl;

namespace {

struct contribution {
    float const* from;
    float* to;
    std::size_t count;
    cudaStream_t stream;
    std::shared_ptr<cuota::event> ready;
};

struct clique {
    explicit clique(int size) : members(std::size_t(size)), calls(std::size_t(size)) {}
    std::vector<ncclComm*> members;
    std::vector<std::vector<contribution>> calls;  // per rank, the calls that have not finished
};

std::mutex guard;
std::map<std::uint64_t, std::shared_ptr<clique>> cliques;

std::uint64_t number_of(ncclUniqueId const& id) {
    std::uint64_t number = 0;
    std::memcpy(&number, id.internal, sizeof number);
    return number;
}

}  // namespace

struct ncclComm {
    std::shared_ptr<clique> all;
    int rank = 0;
    ncclResult_t state = ncclInProgress;
    char const* last = "";
};

namespace {

// Sums in rank order, on a stream that waits for all ranks' streams; these wait for it afterwards.
void add_up(clique& all) {
    std::vector<contribution> parts;
    for (auto& calls : all.calls) {
        parts.push_back(calls.front());
        calls.erase(calls.begin());
    }
    std::vector<float const*> from;
    std::vector<float*> to;
    for (contribution const& p : parts) {
        from.push_back(p.from);
        to.push_back(p.to);
    }
    cuota::stream const between;
    for (contribution const& p : parts) between.wait(*p.ready);
    cuota::detail::enqueue_on_simulator(
        between,
        [from, to, count = parts[0].count]() {
            std::vector<float> sum(from[0], from[0] + count);
            for (std::size_t r = 1; r != from.size(); ++r)
                for (std::size_t i = 0; i != count; ++i) sum[i] += from[r][i];
            for (float* const p : to) std::memcpy(p, sum.data(), count * sizeof(float));
        },
        "all-reduce", cuota::source_location::current());
    cuota::event const done{between};
    for (contribution const& p : parts) cuota::stream_ref{p.stream}.wait(done);
    for (ncclComm* c : all.members) c->state = ncclSuccess;
    ++fake_nccl.sums;
}

void remove(ncclComm* comm) {
    std::scoped_lock const lock{guard};
    comm->all->members[std::size_t(comm->rank)] = nullptr;
    delete comm;
    --fake_nccl.alive;
}

}  // namespace

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
    static std::atomic<std::uint64_t> next = 1;
    std::uint64_t const number = next++;
    std::memset(id, 0x5A, sizeof *id);
    std::memcpy(id->internal, &number, sizeof number);
    return fake_nccl.id_error;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
    if (config->blocking != 0 || id.internal[NCCL_UNIQUE_ID_BYTES - 1] != 0x5A) return ncclInvalidArgument;
    std::scoped_lock const lock{guard};
    auto& all = cliques[number_of(id)];
    if (!all) all = std::make_shared<clique>(ranks);
    *comm = new ncclComm{all, rank};
    ++fake_nccl.alive;
    all->members[std::size_t(rank)] = *comm;
    for (ncclComm const* member : all->members)
        if (!member) return ncclInProgress;
    for (ncclComm* member : all->members) member->state = ncclSuccess;
    cliques.erase(number_of(id));
    return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
    std::scoped_lock const lock{guard};
    *state = comm->state;
    return ncclSuccess;
}
ncclResult_t ncclAllReduce(void const* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream) {
    std::scoped_lock const lock{guard};
    if (comm->state != ncclSuccess) return ncclInvalidUsage;
    if (type != ncclFloat || operation != ncclSum) return ncclInvalidArgument;
    if (fake_nccl.fails_rank == comm->rank) {
        comm->state = ncclRemoteError;
        comm->last = "a peer is unreachable";
        return ncclInProgress;
    }
    comm->state = ncclInProgress;
    comm->all->calls[std::size_t(comm->rank)].push_back({static_cast<float const*>(from),
                                                         static_cast<float*>(to), count, stream,
                                                         std::make_shared<cuota::event>(stream)});
    for (std::size_t r = 0; r != comm->all->members.size(); ++r)
        if (comm->all->calls[r].empty() || !comm->all->members[r]) return ncclInProgress;
    add_up(*comm->all);
    return ncclInProgress;
}
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
    std::scoped_lock const lock{guard};
    if (fake_nccl.finalize_error != ncclSuccess) return fake_nccl.finalize_error;
    return comm->state == ncclSuccess ? ncclSuccess : ncclInvalidUsage;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    remove(comm);
    return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
    remove(comm);
    ++fake_nccl.aborted;
    return ncclSuccess;
}
char const* ncclGetErrorString(ncclResult_t code) {
    return code == ncclRemoteError ? "remote process exited or there was a network error"
                                   : "an error of NCCL";
}
char const* ncclGetLastError(ncclComm_t comm) { return comm->last; }
}
