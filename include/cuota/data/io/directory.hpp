// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The files of a directory as one dataset.
#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/error.hpp>
#include <cuota/data/datasets/concat_dataset.hpp>
#include <cuota/data/datasets/dataset.hpp>
#include <cuota/data/detail/datasets/open_parts.hpp>

namespace cuota::inline v0 {

namespace detail {

/// Returns the names of the folder's files, sorted bytewise.
[[nodiscard]] std::vector<std::string> names_in(std::string const& folder);
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

/// Concatenates the files of a folder with names that end with `which` or satisfy `which(name)`; `open(path)` returns each dataset. Files
/// are sorted bytewise, so numbers need leading zeros. Names with a leading dot are excluded.
///
///     auto train = cuota::directory_of("train", ".npy", [](auto const& path) { return cuota::npy_dataset{path}; });
///
/// With more than `most_open` files, only the most recently read are open, plus one per reading thread. These threads reopen files by
/// concurrent calls of `open`, which must return the same data.
/// Throws:  data_error if the folder cannot be listed or has no matching file; usage_error, as concat_dataset; exceptions of `open` and
///          `which`. gather: also data_error if a file has changed.
/// Cost:    as concat_dataset; a call of `open` to reopen.
/// Threads: any.
template <class Which, std::invocable<std::string const&> Open>
    requires(std::convertible_to<Which const&, std::string_view> ||
             std::predicate<Which const&, std::string const&>)
[[nodiscard]] concat_dataset directory_of(
    std::string const& folder, Which const& which, Open&& open,
    std::size_t most_open = detail::descriptors_to_use()) {  // files; at least 1
    auto const is_wanted = [&](std::string const& name) -> bool {
        if constexpr (std::convertible_to<Which const&, std::string_view>)
            return name.ends_with(std::string_view{which});
        else return which(name);
    };
    using opened = std::remove_cvref_t<std::invoke_result_t<Open&, std::string const&>>;
    std::vector<std::string> paths = detail::paths_in(folder, is_wanted);
    std::size_t const files = paths.size();
    if (files == 0) detail::throw_data_error(folder, 0, "no matching file in the directory");
    if (most_open == 0)
        detail::throw_usage_error("{}: cannot read the directory with 0 open files; allow at least 1",
                                  {folder});
    if (files <= most_open) {
        std::vector<opened> parts;
        for (std::string const& path : paths) parts.push_back(open(path));
        return concat_dataset{std::move(parts)};
    }
    using opener = std::decay_t<Open>;
    auto const from = detail::light_shared_ptr<detail::open_parts>::make(
        std::move(paths), most_open, detail::light_shared_ptr<opener>::make(std::forward<Open>(open)),
        [](void const* how, std::string const& path) -> detail::light_shared_ptr<void const> {
            return detail::light_shared_ptr<opened const>::make(
                (*const_cast<opener*>(static_cast<opener const*>(how)))(path));
        });
    std::vector<detail::part_dataset<opened>> parts;
    for (std::size_t i = 0; i != files; ++i) parts.emplace_back(from, i);
    return concat_dataset{std::move(parts)};
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
        // Broken links are reported when opened.
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
