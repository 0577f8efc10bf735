// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Makes each CUDA call of an operation fail in turn.
#pragma once

#include <cstdint>
#include <exception>
#include <initializer_list>
#include <string>

#include <cuda_runtime_api.h>

#include <cuota/core/error.hpp>
#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/last_error.hpp"
#include "support/machine.hpp"
#include "support/rounds.hpp"

namespace support {

struct failures {
    std::uint64_t all = 0;       ///< runs in which a call failed
    std::uint64_t thrown = 0;    ///< the operation threw one of cuota's errors
    std::uint64_t reported = 0;  ///< the operation completed and reported to the error sink
    std::uint64_t silent = 0;    ///< neither; correct only where a fallback has the same result
};

namespace detail {

[[nodiscard]] inline bool is_same(cuota::simulator::live_counts const& a,
                                  cuota::simulator::live_counts const& b) {
    return a.device_allocations == b.device_allocations && a.device_bytes == b.device_bytes &&
           a.pinned_allocations == b.pinned_allocations && a.pinned_bytes == b.pinned_bytes &&
           a.managed_allocations == b.managed_allocations && a.managed_bytes == b.managed_bytes &&
           a.streams == b.streams && a.events == b.events && a.pools == b.pools && a.graphs == b.graphs &&
           a.graph_execs == b.graph_execs;
}

/// Any exception that is not one of cuota's fails the test.
template <class Operation>
bool throws_ours(Operation& operation) {
    try {
        operation();
        return false;
    } catch (cuota::cuda_error const&) {
    } catch (cuota::out_of_memory const&) {
    } catch (cuota::usage_error const&) {
    } catch (cuota::data_error const&) {
    } catch (std::exception const& error) { FAIL("an error of no type of cuota's: " << error.what()); }
    return true;
}

}  // namespace detail

/// Runs `operation` with its first CUDA call failing, then its second, until a run completes before the fault is injected; repeats this for
/// every code. After the 20th call, only each divisor()th fails: a test may count on the first 20. No run may leak memory or change CUDA's last
/// error.
template <class Operation>
failures survives_every_failure(machine& on, Operation operation,
                                std::initializer_list<cudaError_t> codes = {cudaErrorMemoryAllocation,
                                                                            cudaErrorUnknown}) {
    std::uint64_t const stride = divisor();
    failures seen;
    for (cudaError_t const code : codes) {
        for (std::uint64_t nth = 1;; nth += nth < 20 ? 1 : stride) {
            auto const before = cuota::simulator::live();
            auto const injected = cuota::simulator::faults_injected();
            cuota::simulator::fail_call(nullptr, nth, code);
            INFO("call " << nth << " fails with " << cudaGetErrorName(code));
            bool const threw = detail::throws_ours(operation);
            bool const was_used = cuota::simulator::faults_injected() != injected;
            cuota::simulator::clear_faults();

            bool const was_reported = !on.errors.take().empty();
            REQUIRE(detail::is_same(cuota::simulator::live(), before));
            REQUIRE(last_error() == cudaSuccess);
            if (!was_used) {
                REQUIRE(!threw);
                REQUIRE(!was_reported);
                break;
            }
            ++seen.all;
            ++(threw ? seen.thrown : was_reported ? seen.reported : seen.silent);
        }
    }
    REQUIRE(seen.all >= codes.size());
    return seen;
}

}  // namespace support
