// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Reads Chrome traces. Requires nlohmann's JSON library (headers only). In no umbrella header.
#pragma once

#if !__has_include(<nlohmann/json.hpp>)
#error                                                                                                       \
    "cuota/report/import/chrome_trace.hpp needs <nlohmann/json.hpp>: JSON for Modern C++, Debian's nlohmann-json3-dev"
#endif

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/text/message.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/label.hpp>
#include <cuota/data/io/file.hpp>
#include <cuota/report/detail/import/chrome_events.hpp>
#include <cuota/report/detail/import/repair_counter.hpp>
#include <cuota/report/import/imported_recording.hpp>

namespace cuota::inline v0 {

namespace detail {

/// Converts the events of a Chrome trace to a recording.
class chrome_trace_importer {
public:
    explicit chrome_trace_importer(std::string_view name) : name_{name} {}

    /// For each event of the trace.
    void operator()(chrome_event const& e) {
        if (e.phase == "M" && e.name == "process_name") process_names_[e.process] = e.title;
        else if (e.name == "[memory]" || e.name == "[OutOfMemory]") add_of_pytorch(e);
        else if (e.phase == "X") add_operation(e);
        else if (e.category == "block") add_block_edge(e);
        else if (e.phase == "i" && e.held) add_refusal(e);
    }

    [[nodiscard]] imported_recording finish() {
        if (events_.empty())
            throw_data_error(std::string{name_}, 0,
                             "the trace has no memory events; PyTorch's profiler writes them with "
                             "profile_memory=True");
        name_sites();
        order_events();
        add_sources();
        timeless_.append_to(found_.repairs,
                            "{} events without a time, a size or an address were left out; the first ends at "
                            "byte {}");
        taken_twice_.append_to(found_.repairs, "{} allocations at addresses that were not freed ended the "
                                               "earlier blocks; the first ends at byte {}");
        return std::move(found_);
    }

private:
    static constexpr std::uint64_t cpu = 0;  // PyTorch's device types

    struct timed {
        memory_event event;
        std::string thread;  // of PyTorch's; empty: the site is known
        std::uint64_t offset;
    };
    struct operation {
        std::uint64_t begin, end;
        std::size_t name;  // index in names_
    };

    [[nodiscard]] std::uint16_t source_of(std::string const& key) {
        auto const [at, is_new] = sources_.try_emplace(key, sources_.size() + 1);
        if (is_new && at->second > most_sources)
            throw_data_error(std::string{name_}, 0, "the trace has more than {} processes and devices",
                             {as_count(most_sources)});
        return static_cast<std::uint16_t>(at->second);
    }
    static constexpr std::size_t most_sources = 10'000;

    // --- PyTorch's profiler ---

    void add_of_pytorch(chrome_event const& e) {
        if (e.device_kind == cpu) return;
        bool const is_refused = e.name == "[OutOfMemory]";
        if (!e.at || !e.bytes || !e.device || (!is_refused && !e.address) || *e.bytes == 0)
            return timeless_.count(e.offset);
        memory_event m;
        m.at = *e.at;
        m.source = source_of("PyTorch:" + std::to_string(*e.device));
        bool const is_freed = *e.bytes < 0;
        m.bytes = m.size = static_cast<std::size_t>(is_freed ? -*e.bytes : *e.bytes);
        m.kind = is_refused ? event_kind::refused
                 : is_freed ? event_kind::free_requested
                            : event_kind::allocated;
        if (!is_refused) m.address = *e.address;
        events_.push_back({m, e.process + ' ' + e.thread, e.offset});
    }
    void add_operation(chrome_event const& e) {
        bool const is_python = e.category == "python_function";
        if (!is_python && e.category != "cpu_op" && e.category != "user_annotation") return;
        if (!e.at || !e.lasts) return;
        auto const [at, is_new] = name_indices_.try_emplace(e.name, names_.size());
        if (is_new) names_.push_back({e.name, is_python});
        operations_[e.process + ' ' + e.thread].push_back({*e.at, *e.at + *e.lasts, at->second});
    }

    // The innermost Python function outside of PyTorch; otherwise the innermost operation.
    void name_sites() {
        found_.content.sites.emplace_back();
        std::map<std::string, std::vector<timed*>> of_threads;
        for (timed& t : events_)
            if (!t.thread.empty()) of_threads[t.thread].push_back(&t);
        for (auto& [thread, events] : of_threads) {
            auto const known = operations_.find(thread);
            if (known == operations_.end()) continue;
            std::vector<operation>& all = known->second;
            std::ranges::stable_sort(all, {}, [](operation const& o) { return std::pair{o.begin, ~o.end}; });
            std::ranges::stable_sort(events, {}, [](timed const* t) { return t->event.at; });
            std::vector<operation> open;
            std::size_t next = 0;
            for (timed* const t : events) {
                for (; next != all.size() && all[next].begin <= t->event.at; ++next) {
                    while (!open.empty() && open.back().end <= all[next].begin) open.pop_back();
                    open.push_back(all[next]);
                }
                while (!open.empty() && open.back().end < t->event.at) open.pop_back();
                t->event.site = site_in(open);
            }
        }
    }
    struct known_name {
        std::string text;
        bool is_python;
    };
    [[nodiscard]] std::uint32_t site_in(std::vector<operation> const& open) {
        for (std::size_t i = open.size(); i-- != 0;) {
            known_name const& name = names_[open[i].name];
            if (name.is_python && name.text.find(".py(") != std::string::npos &&
                name.text.find("torch/") == std::string::npos)
                return index_of(site_of_python(name.text));
        }
        return open.empty() ? 0 : index_of({tag::named(names_[open.back().name].text.substr(0, 200)), {}});
    }
    // Of "train.py(12): forward".
    [[nodiscard]] static event_site site_of_python(std::string_view text) {
        std::size_t const open = text.rfind(".py(") + 3;
        std::size_t const close = std::min(text.find("): ", open), text.size());
        event_site site;
        site.where = {tag::named(text.substr(0, open)).text(),
                      line_in(text.substr(open + 1, close - open - 1))};
        site.name = tag::named(close == text.size() ? text.substr(0, open) : text.substr(close + 3, 200));
        return site;
    }
    [[nodiscard]] static unsigned line_in(std::string_view text) {
        unsigned line = 0;
        return std::from_chars(text.data(), text.data() + text.size(), line).ec == std::errc{} ? line : 0;
    }
    [[nodiscard]] std::uint32_t index_of(event_site const& site) {
        auto const [at, is_new] =
            site_indices_.try_emplace({site.name.text(), site.where.file, site.where.line}, 0);
        if (is_new) {
            at->second = static_cast<std::uint32_t>(found_.content.sites.size());
            found_.content.sites.push_back(site);
        }
        return at->second;
    }

    // --- write_chrome_trace ---

    void add_block_edge(chrome_event const& e) {
        if (e.phase == "b") {
            if (!e.at || !e.bytes || !e.address || *e.bytes < 0) return timeless_.count(e.offset);
            memory_event m;
            m.kind = event_kind::allocated;
            m.at = *e.at;
            m.source = source_of(e.process);
            m.address = *e.address;
            m.bytes = static_cast<std::size_t>(*e.bytes);
            m.size = e.size.value_or(m.bytes);
            m.stream = e.stream.value_or(memory_event::no_stream);
            own_sites_.emplace(events_.size(), event_site_of(e));
            if (!e.is_live_at_end) open_[{e.process, e.id}] = events_.size();
            events_.push_back({m, {}, e.offset});
        } else if (e.phase == "e") {
            auto const begun = open_.find({e.process, e.id});
            if (begun == open_.end()) return;
            memory_event m = events_[begun->second].event;
            own_sites_.emplace(events_.size(), own_sites_[begun->second]);
            open_.erase(begun);
            m.kind = event_kind::free_requested;
            m.at = std::max(e.at.value_or(m.at), m.at);
            events_.push_back({m, {}, e.offset});
        }
    }
    void add_refusal(chrome_event const& e) {
        if (!e.at || !e.bytes || *e.bytes < 0) return timeless_.count(e.offset);
        memory_event m;
        m.kind = event_kind::refused;
        m.at = *e.at;
        m.source = source_of(e.process);
        m.bytes = static_cast<std::size_t>(*e.bytes);
        m.size = *e.held;
        if (e.limit) limits_[m.source] = *e.limit;
        own_sites_.emplace(events_.size(), event_site_of(e));
        events_.push_back({m, {}, e.offset});
    }
    [[nodiscard]] static event_site event_site_of(chrome_event const& e) {
        event_site site;
        std::string const& name = e.phase == "i" ? e.tag : e.name;
        if (name != "untagged") site.name = tag::named(std::string_view{name}.substr(0, 200));
        std::size_t const colon = e.location.rfind(':');
        if (colon != std::string::npos)
            site.where = {tag::named(std::string_view{e.location}.substr(0, colon)).text(),
                          line_in(std::string_view{e.location}.substr(colon + 1))};
        return site;
    }

    // --- all ---

    void order_events() {
        for (auto const& [index, site] : own_sites_) events_[index].event.site = index_of(site);
        // At one time, frees come first, as an address may be taken again.
        std::ranges::stable_sort(events_, {}, [](timed const& t) {
            return std::pair{t.event.at, t.event.kind == event_kind::allocated};
        });
        std::uint64_t const first = events_.front().event.at;
        std::map<std::pair<std::uint16_t, std::uint64_t>, std::size_t> live;
        for (timed& t : events_) {
            memory_event& e = t.event;
            e.at -= first;
            if (e.kind == event_kind::allocated) {
                if (!live.try_emplace({e.source, e.address}, e.bytes).second) {
                    taken_twice_.count(t.offset);
                    live[{e.source, e.address}] = e.bytes;
                }
            } else if (e.kind == event_kind::free_requested) {
                if (auto const block = live.find({e.source, e.address}); block != live.end()) {
                    e.bytes = e.size = block->second;
                    live.erase(block);
                }
            }
            found_.content.events.push_back(e);
        }
    }
    void add_sources() {
        found_.content.sources.assign(sources_.size() + 1, {source_kind::resource, {}});
        found_.content.sources[0] = {source_kind::program, "trace"};
        for (auto const& [key, index] : sources_) {
            auto const named = process_names_.find(key);
            found_.content.sources[index].name = named == process_names_.end() ? key : named->second;
            if (auto const limit = limits_.find(static_cast<std::uint16_t>(index)); limit != limits_.end())
                found_.content.sources[index].limit = limit->second;
        }
    }

    std::string_view name_;
    imported_recording found_;
    std::vector<timed> events_;
    std::map<std::string, std::size_t> sources_;
    std::map<std::string, std::string> process_names_;
    std::map<std::uint16_t, std::size_t> limits_;
    std::map<std::string, std::vector<operation>> operations_;  // by thread
    std::vector<known_name> names_;
    std::unordered_map<std::string, std::size_t> name_indices_;
    std::map<std::tuple<std::string_view, std::string_view, unsigned>, std::uint32_t> site_indices_;
    std::map<std::size_t, event_site> own_sites_;                      // by index in events_
    std::map<std::pair<std::string, std::string>, std::size_t> open_;  // index in events_, by process and id
    repair_counter timeless_, taken_twice_;
};

}  // namespace detail

/// Reads a Chrome trace of PyTorch's profiler with profile_memory=True, or one of write_chrome_trace. The recording begins at the first
/// event of memory.
///
/// The profiler's `[memory]` and `[OutOfMemory]` events of devices become events of one resource for each device. Their call site is the
/// innermost Python function outside of PyTorch that encloses them (with_stack=True), otherwise the innermost operator. Blocks and refusals
/// of write_chrome_trace become events of one resource for each process; that format has the largest blocks only
/// (chrome_trace_options::blocks).
///
/// Throws: data_error with the offset for a file that is not JSON, or has no such event; std::bad_alloc.
/// Cost:   O(n log n) in the events.
/// Threads: any.
/// Example: tests/report/import/chrome_trace.cpp
[[nodiscard]] inline imported_recording read_chrome_trace(std::string_view text, std::string_view name) {
    detail::chrome_trace_importer importer{name};
    detail::chrome_events{text, name, [&](detail::chrome_event const& e) { importer(e); }}.read();
    return importer.finish();
}
/// Same, of a file.
[[nodiscard]] inline imported_recording read_chrome_trace(file const& from) {
    std::string text(from.size(), '\0');
    from.read_exact(0, std::as_writable_bytes(std::span{text}));
    return read_chrome_trace(text, from.name());
}

}  // namespace cuota::inline v0
