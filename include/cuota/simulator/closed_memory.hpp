// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "state.hpp"

#include <csetjmp>

/// Device memory that the host cannot reach, for `memory_checks::strict`.
///
/// One large file without a name is mapped twice: at the addresses that the program gets, where every touch faults,
/// and at others, where the simulator works. Each block has its pages to itself and a page behind it that belongs to
/// nobody; it ends where its last page does, as far as its alignment lets it. A kernel that touches a live block
/// faults as well: then the block is opened until that kernel ends.
namespace cuota::inline v0::simulator::closed_memory {

/// A block of so many bytes, aligned to 256, its guard bytes in place; null when there is none. Any thread, with or
/// without the lock, as all of these.
void* take(backing& out, std::size_t bytes);
/// The address is not used again for as long as there are others.
void give(void* address, backing const& b, std::size_t bytes);

/// Who owns what lies at the address from now on: blocks are known until they are given back, longer than the
/// program may use them.
void belongs_to(allocation_ref const& a);
/// Whether the address is that of a block, or could be: nothing else ever lies there.
bool is_closed(void const* address) noexcept;

/// The memory at an address, and why it is not to be touched if it is not; for messages. Under the lock.
std::string what_lies_at(void const* address);

/// Makes sure that faults come here. Other code may have taken the signal, such as a test framework. Costs a system
/// call.
void watch_faults() noexcept;
/// Whether there was ever such a block, or a mapping that is closed: else there is nothing to watch.
bool in_use() noexcept;

/// What one kernel opens, on the thread that runs it. Closes it at the end, and looks at the guard bytes.
class kernel_run {
public:
    kernel_run(device const& d, std::string const& name, call_sites::site from) noexcept;
    ~kernel_run();
    kernel_run(kernel_run const&) = delete;
    kernel_run& operator=(kernel_run const&) = delete;

    std::jmp_buf way_out;  ///< to be set before the kernel starts; taken when it touches what it must not
    std::string fault;     ///< set then

private:
    friend struct fault_handler;

    device const& owner_;
    std::string const& name_;
    call_sites::site from_;
    std::vector<allocation_ref> opened_;
    kernel_run* outer_;
};

}  // namespace cuota::inline v0::simulator::closed_memory
