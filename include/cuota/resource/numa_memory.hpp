// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Page-locked host memory on one NUMA node, and threads that stay there. Needs libnuma (link it: -lnuma); included by nothing
/// else of the library.
#pragma once

#if !__has_include(<numa.h>)
#error "cuota/resource/numa_memory.hpp needs <numa.h> and <numaif.h>: libnuma (Debian's package libnuma-dev)"
#endif

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <vector>

#include <numa.h>
#include <numaif.h>

#include <cuota/core/bytes.hpp>
#include <cuota/core/error.hpp>
#include <cuota/resource/host_pages.hpp>
#include <cuota/resource/registered_memory.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0 {

namespace detail {

/// For errno, right after `call`. In containers it is often the sandbox that refuses: Docker's lets these calls through with
/// the capability SYS_NICE only.
[[nodiscard]] inline std::system_error refused_by_kernel(char const* call, int node) {
    int const why = errno;
    return {why, std::system_category(),
            "cuota: the kernel refused " + std::string{call} + " for NUMA node " + std::to_string(node)};
}

/// Whether the kernel answers questions about NUMA; libnuma may be asked then, and not before. errno says why not.
[[nodiscard]] inline bool kernel_knows_nodes() noexcept { return ::numa_available() >= 0; }

struct node_memory {
    std::size_t total = 0;
    std::size_t free = 0;
};
/// Zeros for a node that is not there, has no memory, or none for this process.
[[nodiscard]] inline node_memory memory_of_node(int node) noexcept {
    // Any number may be asked about.
    if (!::numa_bitmask_isbitset(numa_all_nodes_ptr, static_cast<unsigned>(node))) return {};
    long long free = 0;
    long long const total = ::numa_node_size64(node, &free);
    if (total <= 0) return {};
    return {static_cast<std::size_t>(total), static_cast<std::size_t>(std::max(free, 0LL))};
}

struct free_bitmask {
    void operator()(bitmask* b) const noexcept { ::numa_bitmask_free(b); }
};
using unique_bitmask = std::unique_ptr<bitmask, free_bitmask>;

/// So many of new pages as stand here at once: where they lie, asked and changed.
class placed_pages {
public:
    static constexpr std::size_t most = 1024;

    explicit placed_pages(int node) noexcept : node_{node} { wanted_.fill(node); }

    /// Whether all lie on the node, those that can be moved having been moved. Throws: std::system_error when the kernel does
    /// not tell.
    [[nodiscard]] bool all_of(std::byte* at, std::size_t bytes) {
        for (std::size_t done = 0; done < bytes; done += most * page_bytes())
            if (!these(at + done, std::min(bytes - done, most * page_bytes()))) return false;
        return true;
    }

private:
    [[nodiscard]] bool these(std::byte* at, std::size_t bytes) {
        std::size_t const n = bytes / page_bytes();
        for (std::size_t i = 0; i != n; ++i) pages_[i] = at + i * page_bytes();
        std::size_t const strays = strays_of(n);
        if (strays == 0) return true;
        // The kernel makes room on the node for a page that is moved, but ends no process for it. Who could not be moved
        // shows below.
        (void)::move_pages(0, strays, pages_.data(), wanted_.data(), found_.data(), MPOL_MF_MOVE);
        return strays_of(strays) == 0;
    }
    /// Of the first n pages those that lie elsewhere: brought to the front, and counted.
    [[nodiscard]] std::size_t strays_of(std::size_t n) {
        found_.fill(-ENOENT);
        if (::move_pages(0, n, pages_.data(), nullptr, found_.data(), 0) < 0)
            throw refused_by_kernel("move_pages", node_);
        std::size_t strays = 0;
        for (std::size_t i = 0; i != n; ++i)
            if (found_[i] != node_) pages_[strays++] = pages_[i];
        return strays;
    }

    int node_;
    std::array<void*, most> pages_{};
    std::array<int, most> wanted_{}, found_{};
};

/// Makes pages that are not there yet come from the node while it has some. Throws: std::system_error.
inline void prefer_node(std::byte* at, std::size_t bytes, int node) {
    constexpr std::size_t word = std::numeric_limits<unsigned long>::digits;
    std::array<unsigned long, 1024 / word> nodes{};  // as many as any kernel knows
    nodes[static_cast<std::size_t>(node) / word] = 1UL << (static_cast<std::size_t>(node) % word);
    if (::mbind(at, bytes, MPOL_PREFERRED, nodes.data(), nodes.size() * word + 1, 0) != 0)
        throw refused_by_kernel("mbind", node);
}

}  // namespace detail

/// A NUMA node of this machine that has memory for this process. A value; owns nothing.
/// Threads: any. Cost: a question to the kernel to make one, and for its memory. Example: tests/resource/numa_memory.cpp
class numa_node {
public:
    /// The node of that number, as the kernel counts: device::host_node() is such a number.
    /// Throws: misuse for a node that is not there or has no memory for this process; std::system_error when the kernel knows
    /// nothing of nodes or refuses to tell, as sandboxes do.
    explicit numa_node(int number, place where = place::here());

    [[nodiscard]] int number() const noexcept { return number_; }  ///< as the kernel counts

    /// Both of one moment; other programs may change it at once.
    struct memory_info {
        std::size_t free =
            0;  ///< bytes in nobody's use; what the system caches of files is not free, but can be had
        std::size_t total = 0;  ///< bytes of the node
    };
    /// The kernel's view of this node's memory, now.
    [[nodiscard]] memory_info memory() const noexcept {
        detail::node_memory const now = detail::memory_of_node(number_);
        return {now.free, now.total};
    }
    friend bool operator==(numa_node, numa_node) noexcept = default;  ///< by number

private:
    int number_;
};

/// All nodes that have memory for this process, by number; none when the kernel knows nothing of nodes, or refuses to tell.
/// Throws: std::bad_alloc.
[[nodiscard]] inline std::vector<numa_node> numa_nodes() {
    std::vector<numa_node> all;
    if (!detail::kernel_knows_nodes()) return all;
    for (int i = 0; i <= ::numa_max_node(); ++i)
        if (detail::memory_of_node(i).total != 0) all.emplace_back(i);
    return all;
}

inline numa_node::numa_node(int number, place where) : number_{number} {
    if (!detail::kernel_knows_nodes()) throw detail::refused_by_kernel("get_mempolicy", number);
    if (detail::memory_of_node(number).total != 0) return;
    std::string others;
    for (numa_node const other : numa_nodes()) detail::append_message(others, " {}", {other.number()});
    detail::throw_misuse(where, "there is no NUMA node {} with memory for this process, but these:{}",
                         {number, others});
}

/// Lets the calling thread run on the node's processors only, and threads that it starts from now on: of those that it may
/// run on now. Memory that it is the first to touch lies there, then. For a loader's workers:
///
///     .worker_start = [here = cuota::numa_node{0}](std::size_t) { cuota::bind_this_thread(here); }
///
/// Throws:  misuse when none of them is the node's, as nodes have that are memory only; std::system_error when the kernel
///          refuses. The thread runs where it did then.
/// Example: tests/resource/numa_memory.cpp
CUOTA_PROCESS_STATE inline void bind_this_thread(numa_node to, place where = place::here()) {
    detail::unique_bitmask const now{::numa_allocate_cpumask()}, there{::numa_allocate_cpumask()};
    if (::numa_sched_getaffinity(0, now.get()) < 0)
        throw detail::refused_by_kernel("sched_getaffinity", to.number());
    {
        static auto& guard =
            *new detail::process_lock;  // libnuma keeps what it has read, and guards that by nothing
        std::lock_guard const lock{guard};
        if (::numa_node_to_cpus(to.number(), there.get()) != 0)
            throw detail::refused_by_kernel("reading its processors", to.number());
    }
    bool has_any = false;
    for (unsigned i = 0; i != there->size; ++i) {
        if (!::numa_bitmask_isbitset(now.get(), i)) ::numa_bitmask_clearbit(there.get(), i);
        has_any = has_any || ::numa_bitmask_isbitset(there.get(), i);
    }
    if (!has_any)
        detail::throw_misuse(where, "this thread may run on no processor of NUMA node {}", {to.number()});
    if (::numa_sched_setaffinity(0, there.get()) != 0)
        throw detail::refused_by_kernel("sched_setaffinity", to.number());
}

/// Page-locked host memory as registered_memory, every page of which lies on one NUMA node: on the device's own side of the
/// machine, a copy does not cross to the other.
///
///     if (auto const near = gpu.host_node())
///         options.host_memory = cuota::numa_memory{cuota::numa_node{*near}};
///
/// Pages are asked of the node first, touched, and looked at. Those that the kernel took from elsewhere are moved, for which
/// it gives up what it caches of files there; when it cannot, the request is refused. Neither memory elsewhere nor the
/// system's killer of processes stands in for a node that is full, as they do behind numa_alloc_onnode: what lies elsewhere
/// for a while is 256 MiB at most.
/// Units:   bytes, accounted in whole pages.
/// Order:   valid at return; deallocate waits for the stream, deallocate_sync does not wait.
/// Threads: any.
/// Throws:  out_of_memory, with what the node has free; misuse for an alignment above a page; cuda_error; std::system_error
///          when the kernel refuses to place pages or to tell where they lie (mbind, move_pages), as sandboxes do. Nothing is
///          taken then.
/// Cost:    that of registered_memory, and up to half as much again, for the kernel is asked about every page.
/// Example: tests/resource/numa_memory.cpp
class numa_memory : public detail::registered_pages<numa_memory> {
    friend detail::registered_pages<numa_memory>;

public:
    explicit numa_memory(numa_node where) noexcept : node_{where} {}  ///< takes nothing yet

    [[nodiscard]] numa_node node() const noexcept { return node_; }  ///< where its pages lie
    /// By node.
    friend bool operator==(numa_memory const& a, numa_memory const& b) noexcept { return a.node_ == b.node_; }

private:
    [[nodiscard]] bool settle(std::byte* at, std::size_t bytes) const {
        if (bytes > node_.memory().total) return false;  // and nobody's caches go for nothing
        constexpr std::size_t a_part = std::size_t{256} << 20;
        detail::prefer_node(at, bytes, node_.number());
        detail::placed_pages places{node_.number()};
        for (std::size_t done = 0; done < bytes; done += a_part) {
            std::size_t const now = std::min(a_part, bytes - done);
            detail::touch_pages(at + done, now, detail::threads_to_touch(now));
            if (!places.all_of(at + done, now)) return false;
        }
        return true;
    }
    [[nodiscard]] refusal told(refusal r) const {
        numa_node::memory_info const now = node_.memory();
        detail::append_message(r.cause, "; NUMA node {} has {} free of {}",
                               {node_.number(), detail::as_bytes(now.free), detail::as_bytes(now.total)});
        if (now.free < r.charged) r.would_fit = round_down(now.free, r.granule);  // else it was not the node
        return r;
    }

    numa_node node_;
};

static_assert(labelled_resource<numa_memory> && host_resource<numa_memory> && !device_resource<numa_memory>);

}  // namespace cuota::inline v0
