// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Queries of the kernel's NUMA state that are independent of the library's, and a filter that makes system calls fail.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <exception>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <numa.h>
#include <numaif.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace support {

/// Returns the node of the page at p, or -1 if the kernel reports none.
inline int node_of(void const* p) {
    int node = -1;
    if (::get_mempolicy(&node, nullptr, 0, const_cast<void*>(p), MPOL_F_NODE | MPOL_F_ADDR) != 0) return -1;
    return node;
}

/// Returns true if the bytes are on the node. Checks one byte in every `stride`, and the last.
inline bool lies_on(int node, void const* p, std::size_t bytes, std::size_t stride = 4096) {
    auto const* const at = static_cast<unsigned char const*>(p);
    for (std::size_t i = 0; i < bytes; i += stride)
        if (node_of(at + i) != node) return false;
    return node_of(at + bytes - 1) == node;
}

/// Returns true if every page of these bytes is resident. Call it before node_of, which faults pages in.
inline bool is_there(void* p, std::size_t bytes) {
    auto const page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    std::vector<unsigned char> there((bytes + page - 1) / page);
    if (::mincore(p, bytes, there.data()) != 0) return false;
    return std::ranges::all_of(there, [](unsigned char c) { return (c & 1) != 0; });
}

/// Counts mappings that prefer a node. numa_memory makes them, and they exist until they are unmapped.
inline std::size_t placed_mappings() {
    std::ifstream maps{"/proc/self/numa_maps"};
    std::size_t count = 0;
    for (std::string line; std::getline(maps, line);) count += line.find(" prefer") != std::string::npos;
    return count;
}

/// Returns the reason why pages cannot be bound to nodes or their node not be queried, or an empty string.
inline std::string no_numa() {
    auto const refused = [](char const* call) {
        return "the kernel refuses " + std::string{call} + " (" + std::strerror(errno) + ')';
    };
    if (::numa_available() < 0) return refused("get_mempolicy");
    static int page = 1;
    void* at = &page;
    int node = -1;
    if (::move_pages(0, 1, &at, nullptr, &node, 0) < 0) return refused("move_pages");
    if (::get_mempolicy(&node, nullptr, 0, at, MPOL_F_NODE | MPOL_F_ADDR) != 0)
        return refused("get_mempolicy of an address");
    if (::mbind(nullptr, 0, MPOL_DEFAULT, nullptr, 0, 0) != 0) return refused("mbind");
    if (::numa_node_size64(node, nullptr) <= 0) return "/sys does not tell of nodes";
    int policy = MPOL_DEFAULT;
    if (::get_mempolicy(&policy, nullptr, 0, nullptr, 0) != 0 || policy != MPOL_DEFAULT)
        return "this process was given a memory policy of its own, by numactl perhaps";
    if (!std::ifstream{"/proc/self/numa_maps"}) return "there is no /proc/self/numa_maps";
    return {};
}

/// Runs `action` on a thread for which the kernel answers one system call with `error`, or with success if that is 0, without executing it.
/// Rethrows its exception. Returns false, without running it, if the kernel supports no such filter.
template <class Action>
[[nodiscard]] bool without_call(long number, unsigned error, Action action) {
    bool is_filtered = false;
    std::exception_ptr thrown;
    std::thread{[&] {
        std::array<sock_filter, 4> rules{{{BPF_LD | BPF_W | BPF_ABS, 0, 0, 0},  // the number of the call
                                          {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, static_cast<unsigned>(number)},
                                          {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | error},
                                          {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}}};
        sock_fprog const program{rules.size(), rules.data()};
        is_filtered = ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
        if (is_filtered) try {
                action();
            } catch (...) { thrown = std::current_exception(); }
    }}.join();
    if (thrown) std::rethrow_exception(thrown);
    return is_filtered;
}

[[nodiscard]] inline bool takes_filters() {
    return without_call(SYS_mbind, EPERM, [] {});
}

}  // namespace support
