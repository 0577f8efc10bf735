// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "state.hpp"

#include <csetjmp>

/// Device memory that the host cannot access, for `memory_checks::strict`; see docs/design/simulator.md.
namespace cuota::inline v0::simulator::closed_memory {

/// Returns memory aligned to 256, with guard bytes, or null.
/// Threads: any, with or without the lock, for all functions of this namespace.
void* take(backing& out, std::size_t bytes);
/// Addresses are reused when no unused ones are left.
void give(void* address, backing const& b, std::size_t bytes);

void belongs_to(allocation_ref const& a);
/// Whether the address is in the range of such blocks.
bool is_closed(void const* address) noexcept;

/// Describes the memory and why an access is invalid. Under the lock.
std::string what_lies_at(void const* address);

/// Installs the fault handler again if other code, such as a test framework, has replaced it. Cost: a system call.
void watch_faults() noexcept;
/// Whether such a block or mapping has existed.
bool in_use() noexcept;

/// The blocks that one kernel has opened. The destructor closes them and checks guard bytes.
class kernel_run {
public:
    kernel_run(device const& d, std::string const& name, call_sites::site from) noexcept;
    ~kernel_run();
    kernel_run(kernel_run const&) = delete;
    kernel_run& operator=(kernel_run const&) = delete;

    std::jmp_buf way_out;  ///< target of the jump
    std::string fault;

private:
    friend struct fault_handler;

    device const& owner_;
    std::string const& name_;
    call_sites::site from_;
    std::vector<allocation_ref> opened_;
    kernel_run* outer_;
};

}  // namespace cuota::inline v0::simulator::closed_memory
