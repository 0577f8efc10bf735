// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Adapts cuota's resources to RMM, and RMM's to cuota. Requires RMM 26.06 or later and its CCCL, which is not that of CUDA 13.0.
#pragma once

#include <cuota/interop/cuda_mr.hpp>
#include <cuota/interop/cuda_mr_adaptor.hpp>

#include <rmm/error.hpp>

#include <cstddef>
#include <exception>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/label.hpp>
#include <cuota/resource/resource.hpp>
#include <cuota/runtime/device.hpp>

namespace cuota::inline v0 {

/// A refusal as an rmm::out_of_memory. std::rethrow_if_nested throws the original.
///
/// Does not derive from cuota::out_of_memory: with two std::bad_alloc bases, `catch (std::bad_alloc const&)` would not match. Throws:
/// std::bad_alloc. Cost: that of refusal_text.
class CUOTA_PROCESS_TYPE rmm_out_of_memory : public rmm::out_of_memory, public std::nested_exception {
public:
    /// Copies the facts of the refusal that is being handled.
    explicit rmm_out_of_memory(cuota::out_of_memory const& refused)
        : rmm::out_of_memory{refused.what()}, refused_{refused} {}

    /// The refusal.
    [[nodiscard]] cuota::out_of_memory const& refused() const noexcept { return refused_; }

private:
    cuota::out_of_memory refused_;
};

namespace detail {

struct rmm_refusal_policy {
    [[noreturn]] static void raise(out_of_memory const& refused) { throw rmm_out_of_memory{refused}; }
};

struct rmm_error_policy {
    [[noreturn]] static void raise(cuda_mr_request const& request) {
        try {
            throw;
        } catch (rmm_out_of_memory const& ours) {
            try {
                ours.rethrow_nested();
            } catch (...) { cuda_mr_error_policy::raise(request); }
        } catch (rmm::cuda_error const& error) {  // the code is only in its text
            throw cuda_error{cudaErrorUnknown, "RMM resource", error.what(), request.who.where};
        } catch (rmm::logic_error const& error) {
            throw_usage_error(request.who.where, "RMM resource: {}", {error.what()});
        } catch (...) { cuda_mr_error_policy::raise(request); }
    }
};

}  // namespace detail

/// Adapts a resource or a pool to RMM: a cuda_mr that throws refusals as rmm_out_of_memory. RMM's adaptors may replace them by their own
/// exceptions; the budget's last_refusal has the facts.
///
///     rmm::device_uvector<float> x{n, cuda::stream_ref{s.get()}, cuota::to_rmm(pool, "activations")};
/// Throws, cost: as to_cuda_mr.
template <class M>
[[nodiscard]] auto to_rmm(M const& memory, tag name = {},
                          source_location where = source_location::current()) {
    using handle = detail::handle_of_t<M>;
    return cuda_mr<handle, detail::kind_or_device<handle>(), detail::rmm_refusal_policy>{
        detail::handle_of(memory), name, where};
}
/// Same for memory of kind Kind: `to_rmm<memory_kind::pinned>(pool)`.
template <memory_kind Kind, class M>
[[nodiscard]] auto to_rmm(M const& memory, tag name = {},
                          source_location where = source_location::current()) {
    return cuda_mr<detail::handle_of_t<M>, Kind, detail::rmm_refusal_policy>{detail::handle_of(memory), name,
                                                                             where};
}

/// Adapts an RMM resource to cuota, as from_cuda_mr. rmm::cuda_error becomes cuda_error, rmm::logic_error usage_error, and rmm::bad_alloc
/// and rmm::out_of_memory an out_of_memory with their text as the cause.
///
///     cuota::budgeted limited{budget, cuota::from_rmm(rmm::mr::cuda_async_memory_resource{})};
/// RMM's resources round up to 256 bytes. R's device must be current. Throws, cost: as from_cuda_mr.
template <memory_kind Kind = memory_kind::device, any_cuda_mr R>
[[nodiscard]] auto from_rmm(R r, std::size_t granularity = 256,
                            source_location where = source_location::current()) {
    return cuda_mr_upstream<R, Kind, detail::rmm_error_policy>{std::move(r), granularity, device::current(),
                                                               where};
}

}  // namespace cuota::inline v0
