// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A folder of files as one source: what shards are kept in.
#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/shared.hpp>
#include <cuota/core/std_parts.hpp>
#include <cuota/data/concat_source.hpp>
#include <cuota/data/open_parts.hpp>
#include <cuota/data/source.hpp>

namespace cuota::inline v0 {

namespace detail {

/// The names of what lies in the folder, in the order of their bytes: the same on every machine and in every locale.
/// Not folders, and not what a leading dot hides.
[[nodiscard]] std::vector<std::string> names_in(std::string const& folder);
/// The paths of those of whose name wanted(of, name) is true, in that order.
[[nodiscard]] std::vector<std::string> paths_in(std::string const& folder,
                                                bool (*wanted)(void const* of, std::string const& name),
                                                void const* of);
template <std::predicate<std::string const&> Wanted>
[[nodiscard]] std::vector<std::string> paths_in(std::string const& folder, Wanted const& wanted) {
    return paths_in(
        folder,
        [](void const* of, std::string const& name) -> bool {
            return (*static_cast<Wanted const*>(of))(name);
        },
        std::addressof(wanted));
}

}  // namespace detail

/// The files of a folder one after the other, those whose name ends in `which` or of which `which(name)` is true; each
/// opened by `open(path)`, which returns a source. In the order of the names' bytes, so that numbers in them want
/// leading zeros. Folders in it and files that begin with a dot are left out.
///
///     auto train = cuota::directory_of("train", ".npy", [](auto const& path) { return cuota::npy_source{path}; });
///
/// With more files than `most_open`, only those that were read last are open. A file that is read again is opened again, by a call of
/// `open` from the reading thread, which must return the same data as the first time. `open` is kept in any case.
/// Throws: data_error when the folder cannot be listed, or has no such file; misuse, as concat_source; what `open`
///         and `which` throw. A gather: data_error too when a file has changed since it was first opened.
/// Cost:   that of a concat_source; as many open files as `open` keeps, mostly one each, for at most `most_open` of them and one for each
///         thread that reads. Opening a file again costs a call of `open`, which decompresses again if it does so.
/// Threads: any.
template <class Which, std::invocable<std::string const&> Open>
    requires(std::convertible_to<Which const&, std::string_view> ||
             std::predicate<Which const&, std::string const&>)
[[nodiscard]] concat_source directory_of(
    std::string const& folder, Which const& which, Open&& open,
    std::size_t most_open = detail::descriptors_to_use()) {  // files; 1 or more
    auto const is_wanted = [&](std::string const& name) -> bool {
        if constexpr (std::convertible_to<Which const&, std::string_view>)
            return name.ends_with(std::string_view{which});
        else return which(name);
    };
    using opened = std::remove_cvref_t<std::invoke_result_t<Open&, std::string const&>>;
    std::vector<std::string> paths = detail::paths_in(folder, is_wanted);
    std::size_t const files = paths.size();
    if (files == 0) detail::throw_data_error(folder, 0, "the folder has no file that is asked for");
    if (most_open == 0) detail::throw_misuse("{}: a folder cannot be read with 0 open files", {folder});
    if (files <= most_open) {
        std::vector<opened> parts;
        for (std::string const& path : paths) parts.push_back(open(path));
        return concat_source{std::move(parts)};
    }
    using opener = std::decay_t<Open>;
    auto const from = shared_value<detail::open_parts>::make(
        std::move(paths), most_open, shared_value<opener>::make(std::forward<Open>(open)),
        [](void const* how, std::string const& path) -> shared_value<void const> {
            return shared_value<opened const>::make(
                (*const_cast<opener*>(static_cast<opener const*>(how)))(path));
        });
    std::vector<detail::part_source<opened>> parts;
    for (std::size_t i = 0; i != files; ++i) parts.emplace_back(from, i);
    return concat_source{std::move(parts)};
}

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_DATA

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace cuota::inline v0::detail {

CUOTA_INLINE std::vector<std::string> names_in(std::string const& folder) {
    std::vector<std::string> names;
    std::error_code failed;
    std::filesystem::directory_iterator at{folder, failed};
    for (; !failed && at != std::filesystem::directory_iterator{}; at.increment(failed)) {
        std::string name = at->path().filename().string();
        // What a broken link points to is no folder: whoever opens it says what is wrong.
        std::error_code ignored;
        if (name.starts_with('.') || at->is_directory(ignored)) continue;
        names.push_back(std::move(name));
    }
    if (failed) throw_data_error(folder, 0, "cannot be listed: {}", {failed.message()});
    std::sort(names.begin(), names.end());
    return names;
}

CUOTA_INLINE std::vector<std::string> paths_in(std::string const& folder,
                                               bool (*wanted)(void const* of, std::string const& name),
                                               void const* of) {
    std::vector<std::string> paths;
    for (std::string const& name : names_in(folder))
        if (wanted(of, name)) paths.push_back((std::filesystem::path{folder} / name).string());
    return paths;
}

}  // namespace cuota::inline v0::detail

#endif
