// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Finds the call sites of a PyTorch snapshot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/label.hpp>
#include <cuota/report/detail/import/pickle_document.hpp>
#include <cuota/report/recording/memory_event.hpp>

namespace cuota::inline v0::detail {

/// Finds the call site of a stack of frames, the innermost first.
class pytorch_sites {
public:
    /// Returns the index of the site: of the frames of an entry, and its `user_metadata`.
    [[nodiscard]] std::uint32_t of(pickle_value entry);
    /// Returns the index of a site with only a tag.
    [[nodiscard]] std::uint32_t note(tag name) { return index_of({name, {}}); }
    [[nodiscard]] std::vector<event_site> take() { return std::move(sites_); }
    [[nodiscard]] event_site const& at(std::uint32_t index) const { return sites_[index]; }

private:
    [[nodiscard]] event_site site_of(pickle_value frames);
    [[nodiscard]] std::uint32_t index_of(event_site const& site);
    // Stores a text until the program ends.
    [[nodiscard]] tag stored(std::string_view text);

    std::vector<event_site> sites_{event_site{}};
    std::unordered_map<std::uint32_t, event_site> of_frames_;  // by the number of the list
    std::map<std::tuple<std::string_view, std::string_view, unsigned>, std::uint32_t> known_;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail {

CUOTA_INLINE tag pytorch_sites::stored(std::string_view text) {
    constexpr std::size_t most = 200;  // bytes of a name in a report
    return tag::named(text.substr(0, most));
}

CUOTA_INLINE event_site pytorch_sites::site_of(pickle_value frames) {
    if (auto const known = of_frames_.find(frames.number()); known != of_frames_.end()) return known->second;
    std::optional<event_site> first, own;
    frames.each("frames", [&](pickle_value frame) {
        if (own) return;
        std::string_view const file = frame.at("filename", "a frame").text("filename");
        event_site site;
        site.name = stored(frame.at("name", "a frame").text("name"));
        site.where = {stored(file).text(), static_cast<unsigned>(frame.at("line", "a frame").bits("line"))};
        bool const is_python = file.ends_with(".py") && file.find("/torch/") == std::string_view::npos;
        if (!first) first = site;
        if (is_python) own = site;
    });
    event_site const site = own ? *own : first.value_or(event_site{});
    of_frames_.emplace(frames.number(), site);
    return site;
}

CUOTA_INLINE std::uint32_t pytorch_sites::of(pickle_value entry) {
    event_site site;
    if (auto const frames = entry.find("frames")) site = site_of(*frames);
    if (auto const more = entry.find("user_metadata"); more && more->kind() == pickle_kind::text)
        if (std::string_view const text = more->text("user_metadata"); !text.empty())
            site.name = stored(text);
    return index_of(site);
}

CUOTA_INLINE std::uint32_t pytorch_sites::index_of(event_site const& site) {
    if (site.name.is_empty() && *site.where.file == '\0') return 0;
    auto const [at, is_new] = known_.try_emplace({site.name.text(), site.where.file, site.where.line}, 0);
    if (is_new) {
        at->second = static_cast<std::uint32_t>(sites_.size());
        sites_.push_back(site);
    }
    return at->second;
}

}  // namespace cuota::inline v0::detail

#endif
