// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// MPI calls with checks of results and threads.
#pragma once

/// The removed C++ interface would require linking.
#if !defined(OMPI_SKIP_MPICXX)
#define OMPI_SKIP_MPICXX 1
#endif
/// Same for MPICH.
#if !defined(MPICH_SKIP_MPICXX)
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/process.hpp>
#include <cuota/core/error.hpp>

namespace cuota::inline v0 {

/// An MPI call failed.
class CUOTA_PROCESS_TYPE mpi_error : public std::runtime_error {
public:
    /// `call` is the MPI function, `why` MPI's text for the code.
    mpi_error(int code, std::string const& call, std::string const& why, source_location where = {})
        : std::runtime_error{"cuota::mpi_error: " + call + " failed: " + why +
                             detail::location_suffix(where)},
          code_{code},
          call_{std::make_shared<std::string const>(call)} {}

    [[nodiscard]] int code() const noexcept { return code_; }                  ///< a code of this MPI
    [[nodiscard]] std::string const& call() const noexcept { return *call_; }  ///< name of the function

private:
    int code_;
    std::shared_ptr<std::string const> call_;
};

namespace detail {

[[nodiscard]] inline std::string mpi_text(int code) {
    std::array<char, MPI_MAX_ERROR_STRING + 1> text{};
    int length = 0;
    if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) return "code " + std::to_string(code);
    return text.data();
}

/// For communicators with MPI_ERRORS_RETURN.
inline void mpi_check(int code, char const* call, source_location where = {}) {
    if (code != MPI_SUCCESS) throw mpi_error{code, call, mpi_text(code), where};
}

[[nodiscard]] inline bool mpi_is_finalized() noexcept {
    int is_over = 0;
    return MPI_Finalized(&is_over) != MPI_SUCCESS || is_over != 0;
}

/// Throws: usage_error in a forked child: MPI takes its calls for the parent's, and its locks may have been held at the fork.
CUOTA_PROCESS_STATE inline void mpi_check_process() {
    static process_mark const first;
    if (first.is_of_parent()) throw_forked();
}

/// Throws: usage_error if MPI is not running, or was initialized for a single thread: programs that use CUDA have several.
inline void mpi_check_running(source_location where) {
    mpi_check_process();
    int is_running = 0;
    mpi_check(MPI_Initialized(&is_running), "MPI_Initialized", where);
    if (is_running == 0 || mpi_is_finalized())
        throw usage_error{is_running == 0 ? "MPI was used before MPI_Init_thread"
                                          : "MPI was used after MPI_Finalize",
                          where};
    int level = MPI_THREAD_SINGLE;
    mpi_check(MPI_Query_thread(&level), "MPI_Query_thread", where);
    if (level == MPI_THREAD_SINGLE)
        throw_usage_error(
            where, "MPI was initialised with MPI_THREAD_SINGLE; cuota needs MPI_THREAD_FUNNELED or higher "
                   "(MPI_Init_thread)");
}

/// Throws: usage_error in a forked child, after MPI_Finalize, and below MPI_THREAD_SERIALIZED on a thread that did not initialize MPI.
inline void mpi_check_thread(source_location where = {}) {
    mpi_check_process();
    if (mpi_is_finalized()) throw_usage_error(where, "MPI was used after MPI_Finalize");
    int level = MPI_THREAD_SINGLE;
    int is_main = 0;
    mpi_check(MPI_Query_thread(&level), "MPI_Query_thread", where);
    if (level >= MPI_THREAD_SERIALIZED) return;
    mpi_check(MPI_Is_thread_main(&is_main), "MPI_Is_thread_main", where);
    if (is_main == 0)
        throw_usage_error(where,
                          "MPI was called on a thread other than the one that initialised it, which "
                          "MPI_THREAD_FUNNELED does not allow; initialise it with MPI_THREAD_SERIALIZED");
}

/// Pending operations and the memory that MPI accesses for them.
struct mpi_requests {
    std::vector<MPI_Request> all{};
    std::vector<std::shared_ptr<void const>> memory{};
    mpi_requests* next = nullptr;  // list of abandoned ones

    /// Returns whether all operations have finished. Throws: mpi_error.
    [[nodiscard]] bool are_over() {
        bool is_over = true;
        for (MPI_Request& one : all) {
            int flag = 1;
            if (one != MPI_REQUEST_NULL) mpi_check(MPI_Test(&one, &flag, MPI_STATUS_IGNORE), "MPI_Test");
            is_over = is_over && flag != 0;
        }
        return is_over;
    }
};

/// Keeps the memory of unfinished operations until the process ends, because MPI may access it.
struct mpi_leave_open {
    void operator()(mpi_requests* done_with) const noexcept {
        static std::atomic<mpi_requests*> first = nullptr;  // reachable for leak checkers
        if (std::ranges::all_of(done_with->all, [](MPI_Request r) { return r == MPI_REQUEST_NULL; })) {
            delete done_with;
            return;
        }
        done_with->next = first.load();
        while (!first.compare_exchange_weak(done_with->next, done_with)) {}
    }
};
using mpi_operations = std::unique_ptr<mpi_requests, mpi_leave_open>;

}  // namespace detail

}  // namespace cuota::inline v0
