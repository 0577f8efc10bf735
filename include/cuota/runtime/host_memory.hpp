// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The host's memory, and the limits of the process's control groups.
#pragma once

#include <cstddef>
#include <optional>
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

/// Returns the contents of a small file; nullopt if it cannot be read.
[[nodiscard]] std::optional<std::string> contents_of(std::string const& path);

/// Returns the number at the beginning of the text, `unlimited` for "max" and for more than 2^62, or nullopt.
[[nodiscard]] std::optional<std::size_t> number_in(std::string_view text) noexcept;

/// Returns the number after `key` at the beginning of a line.
[[nodiscard]] std::optional<std::size_t> number_after(std::string_view text, std::string_view key) noexcept;

/// Removes the first line from the text and returns it.
[[nodiscard]] std::string_view take_line(std::string_view& text) noexcept;

/// Where the control groups of memory are mounted, and the one of the process.
struct cgroup_place {
    std::string mount;    ///< directory
    std::string process;  ///< below `mount`; empty: it is `mount`
    bool is_v2 = true;
};
/// Finds them in /proc/self/cgroup and /proc/self/mountinfo; nullopt for a process that is in none of this version.
[[nodiscard]] std::optional<cgroup_place> cgroup_of_process(std::string const& root, bool is_v2);

/// Bounds `info` by one control group.
void bound_by_cgroup(host_memory_info& info, std::string const& root, std::string const& directory,
                     bool is_v2);

}  // namespace detail

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <fcntl.h>
#include <unistd.h>

#include <cuota/core/detail/std_minimal.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE std::optional<std::string> contents_of(std::string const& path) {
    int const file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return std::nullopt;
    std::string text;
    constexpr std::size_t part = 4'096;
    ::ssize_t got = 0;
    try {
        do {
            std::size_t const before = text.size();
            text.resize(before + part);
            got = ::read(file, text.data() + before, part);
            text.resize(before + static_cast<std::size_t>(got > 0 ? got : 0));
        } while (got > 0 && text.size() < (std::size_t{1} << 22));
    } catch (...) {
        ::close(file);
        throw;
    }
    ::close(file);
    if (got < 0) return std::nullopt;
    return text;
}

CUOTA_INLINE std::optional<std::size_t> number_in(std::string_view text) noexcept {
    std::size_t at = 0;
    while (at != text.size() && (text[at] == ' ' || text[at] == '\t')) ++at;
    if (text.substr(at).starts_with("max")) return unlimited;
    constexpr std::size_t most = std::size_t{1} << 62;
    std::size_t number = 0;
    std::size_t const first = at;
    for (; at != text.size() && text[at] >= '0' && text[at] <= '9'; ++at)
        number = number >= most / 10 ? most : number * 10 + static_cast<std::size_t>(text[at] - '0');
    if (at == first) return std::nullopt;
    bool const is_whole = at == text.size() || text[at] == ' ' || text[at] == '\n' || text[at] == '\t';
    if (!is_whole) return std::nullopt;
    return number >= most / 10 * 9 ? unlimited : number;
}

CUOTA_INLINE std::string_view take_line(std::string_view& text) noexcept {
    std::size_t const end = std::min(text.find('\n'), text.size());
    std::string_view const line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return line;
}

CUOTA_INLINE std::optional<std::size_t> number_after(std::string_view text, std::string_view key) noexcept {
    while (!text.empty()) {
        std::string_view const line = take_line(text);
        if (line.starts_with(key)) return number_in(line.substr(key.size()));
    }
    return std::nullopt;
}

// Removes the text up to `end`, or to its end, and returns it without `end`.
[[nodiscard]] CUOTA_INLINE std::string_view take_until(std::string_view& text, char end) noexcept {
    std::size_t const at = std::min(text.find(end), text.size());
    std::string_view const part = text.substr(0, at);
    text.remove_prefix(std::min(at + 1, text.size()));
    return part;
}

// Whether a comma-separated list has "memory".
[[nodiscard]] CUOTA_INLINE bool lists_memory(std::string_view list) noexcept {
    while (!list.empty())
        if (take_until(list, ',') == "memory") return true;
    return false;
}

// mountinfo writes spaces and the like as three octal digits.
[[nodiscard]] CUOTA_INLINE std::string unescaped(std::string_view text) {
    std::string plain;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '\\' || i + 3 >= text.size()) {
            plain += text[i];
            continue;
        }
        int code = 0;
        for (int digit = 0; digit != 3; ++digit) code = code * 8 + (text[++i] - '0');
        plain += static_cast<char>(code);
    }
    return plain;
}

CUOTA_INLINE std::optional<cgroup_place> cgroup_of_process(std::string const& root, bool is_v2) {
    std::optional<std::string> const groups = contents_of(root + "/proc/self/cgroup");
    std::optional<std::string> const mounts = contents_of(root + "/proc/self/mountinfo");
    if (!groups || !mounts) return std::nullopt;
    std::optional<std::string_view> path;
    for (std::string_view left = *groups; !left.empty();) {
        std::string_view line = take_line(left);
        std::string_view const number = take_until(line, ':');
        std::string_view const controllers = take_until(line, ':');
        if (is_v2 ? number == "0" && controllers.empty() : lists_memory(controllers)) path = line;
    }
    if (!path) return std::nullopt;
    for (std::string_view left = *mounts; !left.empty();) {
        std::string_view line = take_line(left);
        for (int skipped = 0; skipped != 3; ++skipped) (void)take_until(line, ' ');
        std::string const top = unescaped(take_until(line, ' '));
        std::string const directory = unescaped(take_until(line, ' '));
        std::size_t const separator = line.find(" - ");
        if (separator == std::string_view::npos) continue;
        line.remove_prefix(separator + 3);
        std::string_view const type = take_until(line, ' ');
        (void)take_until(line, ' ');
        if (is_v2 ? type != "cgroup2" : type != "cgroup" || !lists_memory(line)) continue;
        // A mount of a part of the tree shows the group `top` as its root. A path outside of it cannot be seen.
        std::string_view below = *path;
        if (top != "/") below = below.starts_with(top) ? below.substr(top.size()) : std::string_view{};
        if (below == "/" || !below.starts_with("/") || below.starts_with("/..")) below = {};
        return cgroup_place{directory, std::string{below}, is_v2};
    }
    return std::nullopt;
}

CUOTA_INLINE void bound_by_cgroup(host_memory_info& info, std::string const& root,
                                  std::string const& directory, bool is_v2) {
    auto const read = [&](char const* name) { return contents_of(root + directory + '/' + name); };
    auto const ignore = [&](char const* name, char const* why) {
        info.ignored = directory + '/' + name + why;
    };
    std::size_t limit = unlimited;
    for (char const* const name : {"memory.max", "memory.high", "memory.limit_in_bytes"}) {
        if ((name[7] == 'l') == is_v2) continue;
        std::optional<std::string> const text = read(name);
        if (!text) continue;  // the topmost group has none
        std::optional<std::size_t> const number = number_in(*text);
        if (number) limit = std::min(limit, *number);
        else ignore(name, " has no number");
    }
    if (limit == unlimited) return;
    info.total = std::min(info.total, limit);
    char const* const use_name = is_v2 ? "memory.current" : "memory.usage_in_bytes";
    std::optional<std::string> const text = read(use_name);
    std::optional<std::size_t> const use = text ? number_in(*text) : std::nullopt;
    if (!use) {
        ignore(use_name, text ? " has no number" : " cannot be read");
        info.available = std::min(info.available, limit);
        return;
    }
    std::string const statistics = read("memory.stat").value_or("");
    std::size_t droppable = 0;
    if (is_v2)
        for (char const* const key : {"inactive_file", "active_file", "slab_reclaimable"})
            droppable += number_after(statistics, key).value_or(0);
    else
        for (char const* const key : {"total_inactive_file", "total_active_file"})
            droppable += number_after(statistics, key).value_or(0);
    std::size_t const kept = *use - std::min(*use, droppable);
    std::size_t const left = limit - std::min(limit, kept);
    if (left >= info.available) return;
    info.available = left;
    info.bounded_by = directory;
}

// The machine's figures.
[[nodiscard]] CUOTA_INLINE host_memory_info memory_of_machine(std::string const& root) {
    host_memory_info info;
    std::string const text = contents_of(root + "/proc/meminfo").value_or("");
    auto const kibibytes = [&](char const* key) -> std::optional<std::size_t> {
        std::optional<std::size_t> const number = number_after(text, key);
        if (!number || *number > unlimited / 1'024) return std::nullopt;
        return *number * 1'024;
    };
    std::optional<std::size_t> const total = kibibytes("MemTotal:");
    std::optional<std::size_t> available = kibibytes("MemAvailable:");
    if (total && !available) {  // before Linux 3.14
        info.ignored = "/proc/meminfo has no MemAvailable";
        if (auto const free = kibibytes("MemFree:"))
            available = *free + kibibytes("Buffers:").value_or(0) + kibibytes("Cached:").value_or(0);
    }
    if (total && *total != 0 && available) {
        info.total = *total;
        info.available = std::min(*available, *total);
        return info;
    }
    info.ignored =
        text.empty() ? "/proc/meminfo cannot be read" : "/proc/meminfo has no valid MemTotal and MemFree";
    auto const page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    info.total = static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * page;
    info.available = static_cast<std::size_t>(::sysconf(_SC_AVPHYS_PAGES)) * page;
    return info;
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE host_memory_info host_memory(std::string const& root) {
    host_memory_info info = detail::memory_of_machine(root);
    for (bool const is_v2 : {true, false}) {
        std::optional<detail::cgroup_place> const place = detail::cgroup_of_process(root, is_v2);
        if (!place) continue;
        for (std::string below = place->process;; below.erase(below.rfind('/'))) {
            detail::bound_by_cgroup(info, root, place->mount + below, is_v2);
            if (below.find('/') == std::string::npos) break;
        }
    }
    return info;
}

}  // namespace cuota::inline v0

#endif
