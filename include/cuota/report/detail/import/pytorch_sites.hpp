// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Finds the call sites of a PyTorch snapshot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/label.hpp>
#include <cuota/report/detail/import/imported_sites.hpp>
#include <cuota/report/detail/import/pickle_document.hpp>
#include <cuota/report/recording/memory_event.hpp>

namespace cuota::inline v0::detail {

/// Returns the operation that a C++ frame names: "MulBackward0" for a node of the autograd graph, "mul_Tensor" for an operator; empty for
/// other frames.
[[nodiscard]] std::string_view pytorch_node_in(std::string_view frame) noexcept;
[[nodiscard]] std::string_view pytorch_operator_in(std::string_view frame) noexcept;

/// Finds the call site of a stack of frames, the innermost first: the first Python frame outside of PyTorch; otherwise the first Python
/// frame, the node of the autograd graph, the operator, or the first frame that is not the allocator's, in this order.
class pytorch_sites {
public:
    /// Returns the index of the site: of the frames of an entry, and its `user_metadata`.
    [[nodiscard]] std::uint32_t of(pickle_value entry);
    /// Returns the index of a site with only a tag.
    [[nodiscard]] std::uint32_t note(tag name) { return all_.index_of({name, {}}); }
    [[nodiscard]] std::vector<event_site> take() { return all_.take(); }
    [[nodiscard]] event_site const& at(std::uint32_t index) const { return all_.at(index); }

private:
    [[nodiscard]] event_site site_of(pickle_value frames);

    imported_sites all_;
    std::unordered_map<std::uint32_t, event_site> of_frames_;  // by the number of the list
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail {

CUOTA_INLINE std::string_view pytorch_node_in(std::string_view frame) noexcept {
    constexpr std::string_view prefix = "torch::autograd::";
    std::size_t const end = frame.find("::apply(");
    if (!frame.starts_with(prefix) || end == std::string_view::npos) return {};
    std::size_t const begin = frame.rfind("::", end - 1);
    return frame.substr(begin + 2, end - begin - 2);
}

CUOTA_INLINE std::string_view pytorch_operator_in(std::string_view frame) noexcept {
    constexpr std::string_view prefix = "at::_ops::";
    std::size_t const end = frame.find("::call(");
    if (!frame.starts_with(prefix) || end == std::string_view::npos) return {};
    return frame.substr(prefix.size(), end - prefix.size());
}

// Whether a frame is of the allocator or of the recording of the stack itself.
CUOTA_INLINE bool is_frame_of_allocator(std::string_view name) noexcept {
    for (std::string_view const prefix : {"torch::unwind", "torch::CapturedTraceback", "torch::cuda::",
                                          "c10::", "at::TensorBase at::detail::", "at::detail::empty"})
        if (name.starts_with(prefix)) return true;
    return false;
}

CUOTA_INLINE event_site pytorch_sites::site_of(pickle_value frames) {
    if (auto const known = of_frames_.find(frames.number()); known != of_frames_.end()) return known->second;
    std::optional<event_site> own, python, first;
    std::string_view node, operation;
    frames.each("frames", [&](pickle_value frame) {
        if (own) return;
        std::string_view const file = frame.at("filename", "a frame").text("filename");
        std::string_view const name = frame.at("name", "a frame").text("name");
        auto const line = static_cast<unsigned>(frame.at("line", "a frame").bits("line"));
        auto const here = [&] {
            return event_site{imported_sites::stored(name), {imported_sites::stored(file).text(), line}};
        };
        if (file.ends_with(".py")) {
            if (file.find("/torch/") == std::string_view::npos) own = here();
            else if (!python) python = here();
        }
        if (node.empty()) node = pytorch_node_in(name);
        if (operation.empty()) operation = pytorch_operator_in(name);
        if (!first && !is_frame_of_allocator(name)) first = here();
    });
    std::string_view const known_operation = node.empty() ? operation : node;
    event_site site;
    if (own) site = *own;
    else if (python) site = *python;
    else if (!known_operation.empty()) site.name = imported_sites::stored(known_operation);
    else if (first) site = *first;
    of_frames_.emplace(frames.number(), site);
    return site;
}

CUOTA_INLINE std::uint32_t pytorch_sites::of(pickle_value entry) {
    event_site site;
    if (auto const frames = entry.find("frames")) site = site_of(*frames);
    if (auto const more = entry.find("user_metadata"); more && more->kind() == pickle_kind::text)
        if (std::string_view const text = more->text("user_metadata"); !text.empty())
            site.name = imported_sites::stored(text);
    return all_.index_of(site);
}

}  // namespace cuota::inline v0::detail

#endif
