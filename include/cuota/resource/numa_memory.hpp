// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Page-locked host memory on one NUMA node, and binding of threads to nodes. Requires libnuma (link with -lnuma).
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
#include <cuota/resource/detail/host_pages.hpp>
#include <cuota/resource/registered_memory.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0 {

namespace detail {

/// Makes an error from errno, right after `call`. Docker allows these calls only with the capability SYS_NICE.
[[nodiscard]] inline std::system_error refused_by_kernel(char const* call, int node) {
    int const why = errno;
    return {why, std::system_category(),
            "cuota: " + std::string{call} + " failed for NUMA node " + std::to_string(node)};
}

/// Returns whether libnuma may be called. Sets errno if not.
[[nodiscard]] inline bool kernel_knows_nodes() noexcept { return ::numa_available() >= 0; }

struct node_memory {
    std::size_t total = 0;
    std::size_t free = 0;
};
/// Returns zeros if the node has no memory for this process.
[[nodiscard]] inline node_memory memory_of_node(int node) noexcept {
    // Checked first, so that any number is allowed.
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

/// Queries and changes the node of new pages, in portions of `most`.
class placed_pages {
public:
    static constexpr std::size_t most = 1024;

    explicit placed_pages(int node) noexcept : node_{node} { wanted_.fill(node); }

    /// Moves pages to the node; returns whether all are there.
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
        // The kernel reclaims memory of the node to move a page, but kills no process. Failures are found below.
        (void)::move_pages(0, strays, pages_.data(), wanted_.data(), found_.data(), MPOL_MF_MOVE);
        return strays_of(strays) == 0;
    }
    /// Moves those of the first n pages that are elsewhere to the front of pages_, and returns their number.
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

/// Makes new pages come from the node while it has free ones.
inline void prefer_node(std::byte* at, std::size_t bytes, int node) {
    constexpr std::size_t word = std::numeric_limits<unsigned long>::digits;
    std::array<unsigned long, 1024 / word> nodes{};  // the most nodes of any kernel
    nodes[static_cast<std::size_t>(node) / word] = 1UL << (static_cast<std::size_t>(node) % word);
    if (::mbind(at, bytes, MPOL_PREFERRED, nodes.data(), nodes.size() * word + 1, 0) != 0)
        throw refused_by_kernel("mbind", node);
}

}  // namespace detail

/// A NUMA node with memory for this process.
/// Threads: any. Cost: construction and memory() query the kernel. Example: tests/resource/numa_memory.cpp
class numa_node {
public:
    /// Selects a node by the kernel's number, such as device::host_numa_node().
    /// Throws: usage_error if it has no memory for this process; std::system_error if the kernel does not support or, as sandboxes do,
    /// refuses NUMA queries.
    explicit numa_node(int number, source_location where = source_location::current());

    [[nodiscard]] int number() const noexcept { return number_; }  ///< as the kernel counts

    /// Figures of one moment.
    struct memory_info {
        std::size_t free = 0;   ///< unused bytes, without page cache
        std::size_t total = 0;  ///< bytes of the node
    };
    /// Returns the kernel's present figures.
    [[nodiscard]] memory_info memory() const noexcept {
        detail::node_memory const now = detail::memory_of_node(number_);
        return {now.free, now.total};
    }
    friend bool operator==(numa_node, numa_node) noexcept = default;  ///< by number

private:
    int number_;
};

/// Returns all nodes with memory for this process, by number; empty where NUMA queries are unavailable.
[[nodiscard]] inline std::vector<numa_node> numa_nodes() {
    std::vector<numa_node> all;
    if (!detail::kernel_knows_nodes()) return all;
    for (int i = 0; i <= ::numa_max_node(); ++i)
        if (detail::memory_of_node(i).total != 0) all.emplace_back(i);
    return all;
}

inline numa_node::numa_node(int number, source_location where) : number_{number} {
    if (!detail::kernel_knows_nodes()) throw detail::refused_by_kernel("get_mempolicy", number);
    if (detail::memory_of_node(number).total != 0) return;
    std::string others;
    for (numa_node const other : numa_nodes()) detail::append_message(others, " {}", {other.number()});
    detail::throw_usage_error(
        where, "numa_node: node {} has no memory for this process; nodes with memory:{}", {number, others});
}

/// Restricts the calling thread, and threads that it starts later, to its allowed processors of the node. Memory that it touches first is
/// then allocated there. For a loader's workers:
///
///     .worker_init = [here = cuota::numa_node{0}](std::size_t) { cuota::bind_this_thread(here); }
///
/// Throws:  usage_error if the node has none of them; std::system_error if the kernel refuses. The binding is unchanged.
/// Example: tests/resource/numa_memory.cpp
CUOTA_PROCESS_STATE inline void bind_this_thread(numa_node to,
                                                 source_location where = source_location::current()) {
    detail::unique_bitmask const now{::numa_allocate_cpumask()}, there{::numa_allocate_cpumask()};
    if (::numa_sched_getaffinity(0, now.get()) < 0)
        throw detail::refused_by_kernel("sched_getaffinity", to.number());
    {
        static auto& guard = *new detail::process_lock;  // libnuma caches the mapping without synchronization
        std::lock_guard const lock{guard};
        if (::numa_node_to_cpus(to.number(), there.get()) != 0)
            throw detail::refused_by_kernel("numa_node_to_cpus", to.number());
    }
    bool has_any = false;
    for (unsigned i = 0; i != there->size; ++i) {
        if (!::numa_bitmask_isbitset(now.get(), i)) ::numa_bitmask_clearbit(there.get(), i);
        has_any = has_any || ::numa_bitmask_isbitset(there.get(), i);
    }
    if (!has_any)
        detail::throw_usage_error(
            where, "bind_this_thread: this thread's affinity mask has no processor of NUMA node {}",
            {to.number()});
    if (::numa_sched_setaffinity(0, there.get()) != 0)
        throw detail::refused_by_kernel("sched_setaffinity", to.number());
}

/// Resource like registered_memory, with all pages on one NUMA node. On the device's own node, copies do not cross between sockets.
///
///     if (auto const near = gpu.host_numa_node())
///         options.host_memory = cuota::numa_memory{cuota::numa_node{*near}};
///
/// Pages that the kernel placed elsewhere are moved, for which it drops page cache of the node; if that fails, the request is refused.
/// Unlike numa_alloc_onnode, a full node leads neither to memory elsewhere nor to the kernel's OOM killer.
/// Units:   bytes, counted in whole pages.
/// Order:   as pinned_memory.
/// Threads: any.
/// Throws:  out_of_memory with the node's free bytes; usage_error for an alignment above a page; cuda_error; std::system_error if the
///          kernel refuses to place or query pages, as sandboxes do.
/// Cost:    that of registered_memory, plus up to half for the query of every page.
/// Example: tests/resource/numa_memory.cpp
class numa_memory : public detail::mapped_pages<numa_memory> {
    friend detail::mapped_pages<numa_memory>;

public:
    explicit numa_memory(numa_node where) noexcept : node_{where} {}  ///< allocates nothing yet

    [[nodiscard]] numa_node node() const noexcept { return node_; }  ///< the node of its pages
    /// Compares the nodes.
    friend bool operator==(numa_memory const& a, numa_memory const& b) noexcept { return a.node_ == b.node_; }

private:
    static constexpr bool locks_pages = true;
    [[nodiscard]] bool settle(std::byte* at, std::size_t bytes) const {
        if (bytes > node_.memory().total) return false;  // refused before any page cache is dropped
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
        if (now.free < r.charged) r.max_fit = round_down(now.free, r.granularity);  // else not the cause
        return r;
    }

    numa_node node_;
};

static_assert(labeled_resource<numa_memory> && host_accessible_resource<numa_memory> &&
              !device_accessible_resource<numa_memory>);

}  // namespace cuota::inline v0
