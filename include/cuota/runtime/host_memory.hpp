// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The host's memory, and the limits of the process's control groups.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>

namespace cuota::inline v0 {

/// The host's memory as the process may use it. Sizes are bytes. Example: tests/runtime/host_memory.cpp
struct host_memory_info {
    std::size_t total = 0;  ///< of the machine, or the lowest limit of a control group if that is lower
    std::size_t available =
        0;  ///< for new allocations: page cache that the kernel drops on demand counts, swap does not
    /// The directory of the control group that leaves the fewest bytes; empty if the machine has no more than it leaves.
    std::string bounded_by{};
    std::string ignored{};  ///< a file that could not be used, and why; empty: none
};

/// Reads MemAvailable of /proc/meminfo, and the limit and the use of each control group of the process, of version 2 (memory.max and
/// memory.high) and 1 (memory.limit_in_bytes), up to the top of what is mounted. A group has limit - use + page cache and slabs that the
/// kernel drops on demand, as for MemAvailable.
///
/// A file that is missing or has no number is left out and named in `ignored`. The next best source replaces it: MemFree, Buffers and Cached for
/// MemAvailable, and sysconf for /proc/meminfo.
/// `root` is the directory of proc and sys, for example of a host's files mounted in a container.
/// Threads: any. Throws: std::bad_alloc. Cost: reads ten to thirty small files.
[[nodiscard]] host_memory_info host_memory(std::string const& root = {});

namespace detail {

/// Reads a small file. Returns false if it cannot be read.
[[nodiscard, gnu::cold]] bool read_file(std::string const& path, std::string& into);

/// Finds the number after `key` at the beginning of a line: `unlimited` for "max" and for more than 2^62. Returns false without one.
[[nodiscard, gnu::cold]] bool number_after(std::string_view text, std::string_view key,
                                           std::size_t& number) noexcept;

/// A tree of control groups that limit memory, as it is mounted, and the group of the process.
struct cgroup_place {
    std::string mount{};    ///< directory; empty: there is no such tree
    std::string process{};  ///< below `mount`; empty: it is `mount`
};
/// Finds them in /proc/self/cgroup and /proc/self/mountinfo.
[[nodiscard, gnu::cold]] cgroup_place cgroup_of_process(std::string const& root, bool is_v2);

/// Reports a file that was left out to the error sink.
[[gnu::cold]] void report_ignored(host_memory_info const& info) noexcept;

/// Bounds `info` by one control group.
[[gnu::cold]] void bound_by_cgroup(host_memory_info& info, std::string const& root,
                                   std::string const& directory, bool is_v2);

}  // namespace detail

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <fcntl.h>
#include <unistd.h>

#include <stdexcept>

#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/error_sink.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE bool read_file(std::string const& path, std::string& into) {
    into.clear();
    int const file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    char part[4'096];
    ::ssize_t got = 0;
    try {
        while ((got = ::read(file, part, sizeof part)) > 0 && into.size() < (std::size_t{1} << 22))
            into.append(part, static_cast<std::size_t>(got));
    } catch (...) {
        ::close(file);
        throw;
    }
    ::close(file);
    return got >= 0;
}

// Removes the text up to `end`, or to its end, and returns it without `end`.
[[nodiscard, gnu::cold]] CUOTA_INLINE std::string_view take_until(std::string_view& text, char end) noexcept {
    std::size_t const at = std::min(text.find(end), text.size());
    std::string_view const part{text.data(), at};
    text.remove_prefix(std::min(at + 1, text.size()));
    return part;
}

CUOTA_INLINE bool number_after(std::string_view text, std::string_view key, std::size_t& number) noexcept {
    while (!text.empty()) {
        std::string_view line = take_until(text, '\n');
        if (!line.starts_with(key)) continue;
        line.remove_prefix(key.size());
        while (!line.empty() && (line[0] == ' ' || line[0] == '\t')) line.remove_prefix(1);
        number = unlimited;
        if (line == "max") return true;
        constexpr std::size_t most = std::size_t{1} << 62;
        std::size_t digits = 0;
        std::size_t sum = 0;
        for (; digits != line.size() && line[digits] >= '0' && line[digits] <= '9'; ++digits)
            sum = sum >= most / 10 ? most : sum * 10 + static_cast<std::size_t>(line[digits] - '0');
        if (sum < most) number = sum;
        return digits != 0 && (digits == line.size() || line[digits] == ' ');
    }
    return false;
}

// Whether a comma-separated list has "memory".
[[nodiscard, gnu::cold]] CUOTA_INLINE bool lists_memory(std::string_view list) noexcept {
    while (!list.empty())
        if (take_until(list, ',') == "memory") return true;
    return false;
}

// mountinfo writes spaces and the like as three octal digits.
[[nodiscard, gnu::cold]] CUOTA_INLINE std::string unescaped(std::string_view text) {
    std::string plain{text};
    for (std::size_t at = 0; (at = plain.find('\\', at)) != std::string::npos && at + 3 < plain.size();
         ++at) {
        int const code = (plain[at + 1] - '0') * 64 + (plain[at + 2] - '0') * 8 + (plain[at + 3] - '0');
        plain[at] = static_cast<char>(code);
        plain.erase(at + 1, 3);
    }
    return plain;
}

CUOTA_INLINE cgroup_place cgroup_of_process(std::string const& root, bool is_v2) {
    cgroup_place found;
    std::string groups;
    std::string mounts;
    if (!read_file(root + "/proc/self/cgroup", groups) || !read_file(root + "/proc/self/mountinfo", mounts))
        return found;
    std::string_view path;
    for (std::string_view left = groups; !left.empty();) {
        std::string_view line = take_until(left, '\n');
        std::string_view const number = take_until(line, ':');
        std::string_view const controllers = take_until(line, ':');
        if (is_v2 ? number == "0" && controllers.empty() : lists_memory(controllers)) path = line;
    }
    for (std::string_view left = mounts; !left.empty() && !path.empty();) {
        std::string_view line = take_until(left, '\n');
        for (int skipped = 0; skipped != 3; ++skipped) (void)take_until(line, ' ');
        std::string_view const top = take_until(line, ' ');
        std::string_view const directory = take_until(line, ' ');
        std::size_t const separator = line.find(" - ");
        if (separator == std::string_view::npos) continue;
        line.remove_prefix(separator + 3);
        std::string_view const type = take_until(line, ' ');
        (void)take_until(line, ' ');
        if (is_v2 ? type != "cgroup2" : type != "cgroup" || !lists_memory(line)) continue;
        found.mount = unescaped(directory);
        // A mount of a part of the tree shows the group `top` as its root. A path outside of it cannot be seen.
        std::string const hidden = top == "/" ? std::string{} : unescaped(top);
        if (path.starts_with(hidden)) path.remove_prefix(hidden.size());
        else path = {};
        if (path.size() > 1 && path[0] == '/' && !path.starts_with("/..")) found.process = path;
        break;
    }
    return found;
}

CUOTA_INLINE void bound_by_cgroup(host_memory_info& info, std::string const& root,
                                  std::string const& directory, bool is_v2) {
    std::string text;
    std::size_t number = 0;
    auto const read = [&](char const* name) { return read_file(root + directory + '/' + name, text); };
    auto const read_number = [&](char const* name) {
        if (number_after(text, "", number)) return true;
        info.ignored = directory + '/' + name + (text.empty() ? " cannot be read" : " has no number");
        return false;
    };
    std::size_t limit = unlimited;
    for (char const* const name : {"memory.max", "memory.high", "memory.limit_in_bytes"})
        if ((name[7] == 'l') != is_v2 && read(name) && read_number(name))  // the topmost group has no file
            limit = std::min(limit, number);
    if (limit == unlimited) return;
    info.total = std::min(info.total, limit);
    char const* const use_name = is_v2 ? "memory.current" : "memory.usage_in_bytes";
    (void)read(use_name);
    std::size_t use = read_number(use_name) ? number : 0;
    (void)read("memory.stat");
    for (char const* const key :
         {"inactive_file", "active_file", "slab_reclaimable", "total_inactive_file", "total_active_file"})
        // Version 1 sums up the groups below as "total".
        if ((key[0] == 't') != is_v2 && number_after(text, key, number)) use -= std::min(use, number);
    std::size_t const left = limit - std::min(limit, use);
    if (left >= info.available) return;
    info.available = left;
    info.bounded_by = directory;
}

CUOTA_INLINE void report_ignored(host_memory_info const& info) noexcept {
    if (info.ignored.empty()) return;
    report_failure_of([&] { throw std::runtime_error{"cuota::host_memory: left out: " + info.ignored}; });
}

// The machine's figures.
[[nodiscard, gnu::cold]] CUOTA_INLINE host_memory_info memory_of_machine(std::string const& root) {
    host_memory_info info;
    std::string text;
    bool const is_read = read_file(root + "/proc/meminfo", text);
    auto const bytes_of = [&](char const* key) {
        std::size_t number = 0;
        bool const is_valid = number_after(text, key, number) && number <= unlimited / 1'024;
        return is_valid ? number * 1'024 : unlimited;
    };
    info.total = bytes_of("MemTotal:");
    info.available = bytes_of("MemAvailable:");
    if (info.available == unlimited) {  // before Linux 3.14
        info.ignored = "/proc/meminfo has no MemAvailable";
        info.available = bytes_of("MemFree:");
        for (char const* const key : {"Buffers:", "Cached:"})
            if (std::size_t const more = bytes_of(key); more != unlimited && info.available != unlimited)
                info.available += more;
    }
    if (info.total == 0 || info.total == unlimited || info.available == unlimited) {
        info.ignored =
            is_read ? "/proc/meminfo has no valid MemTotal and MemFree" : "/proc/meminfo cannot be read";
        auto const page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
        info.total = static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * page;
        info.available = static_cast<std::size_t>(::sysconf(_SC_AVPHYS_PAGES)) * page;
    }
    info.available = std::min(info.available, info.total);
    return info;
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE host_memory_info host_memory(std::string const& root) {
    host_memory_info info = detail::memory_of_machine(root);
    for (bool const is_v2 : {true, false}) {
        detail::cgroup_place place = detail::cgroup_of_process(root, is_v2);
        if (place.mount.empty()) continue;
        for (;; place.process.erase(place.process.rfind('/'))) {
            detail::bound_by_cgroup(info, root, place.mount + place.process, is_v2);
            if (place.process.find('/') == std::string::npos) break;
        }
    }
    return info;
}

}  // namespace cuota::inline v0

#endif
