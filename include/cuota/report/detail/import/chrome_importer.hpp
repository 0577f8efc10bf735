// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Converts the events of a Chrome trace to a recording. Requires nlohmann's JSON library.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/text/message.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/label.hpp>
#include <cuota/report/detail/import/chrome_events.hpp>
#include <cuota/report/detail/import/imported_sites.hpp>
#include <cuota/report/detail/import/repair_counter.hpp>
#include <cuota/report/import/imported_recording.hpp>

namespace cuota::inline v0::detail {

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
        found_.content.sites = sites_.take();
        timeless_.append_to(found_.repairs,
                            "{} events without a time, a size or an address were left out; the first ends at "
                            "byte {}");
        taken_twice_.append_to(found_.repairs, "{} allocations at addresses that were not freed ended the "
                                               "earlier blocks; the first ends at byte {}");
        return std::move(found_);
    }

private:
    static constexpr std::uint64_t cpu = 0;  // PyTorch's device types

    // Events of equal times stay in the order of the file, except in traces of write_chrome_trace, which are not ordered by time: there, a
    // block's free comes first if it began earlier, as its address may be taken again, and last if it began at that time.
    enum class order { early, usual, late };
    struct timed {
        memory_event event;
        std::uint64_t offset;
        std::string thread{};  // of PyTorch's; empty: the site is known
        order at_equal_time = order::usual;
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
        events_.push_back({m, e.offset, e.process + ' ' + e.thread});
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
                return sites_.index_of(site_of_python(name.text));
        }
        if (open.empty()) return 0;
        return sites_.index_of({imported_sites::stored(names_[open.back().name].text), {}});
    }
    // Returns the site of a name such as "train.py(12): forward".
    [[nodiscard]] static event_site site_of_python(std::string_view text) {
        std::size_t const open = text.rfind(".py(") + 3;
        std::size_t const close = std::min(text.find("): ", open), text.size());
        event_site site;
        site.where = {imported_sites::stored(text.substr(0, open)).text(),
                      line_in(text.substr(open + 1, close - open - 1))};
        site.name = imported_sites::stored(text.substr(close == text.size() ? 0 : close + 3));
        return site;
    }
    [[nodiscard]] static unsigned line_in(std::string_view text) {
        unsigned line = 0;
        return std::from_chars(text.data(), text.data() + text.size(), line).ec == std::errc{} ? line : 0;
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
            m.site = sites_.index_of(event_site_of(e));
            if (!e.is_live_at_end) open_[{e.process, e.id}] = events_.size();
            events_.push_back({m, e.offset});
        } else if (e.phase == "e") {
            auto const begun = open_.find({e.process, e.id});
            if (begun == open_.end()) return;
            memory_event m = events_[begun->second].event;
            std::uint64_t const from = m.at;
            open_.erase(begun);
            m.kind = event_kind::free_requested;
            m.at = std::max(e.at.value_or(from), from);
            events_.push_back({m, e.offset, {}, m.at == from ? order::late : order::early});
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
        m.site = sites_.index_of(event_site_of(e));
        events_.push_back({m, e.offset});
    }
    [[nodiscard]] static event_site event_site_of(chrome_event const& e) {
        event_site site;
        std::string const& name = e.phase == "i" ? e.tag : e.name;
        if (name != "untagged") site.name = imported_sites::stored(name);
        std::size_t const colon = e.location.rfind(':');
        if (colon != std::string::npos)
            site.where = {imported_sites::stored(std::string_view{e.location}.substr(0, colon)).text(),
                          line_in(std::string_view{e.location}.substr(colon + 1))};
        return site;
    }

    // --- all ---

    void order_events() {
        std::ranges::stable_sort(events_, {}, [](timed const& t) {
            return std::pair{t.event.at, t.at_equal_time};
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
    imported_sites sites_;
    std::map<std::pair<std::string, std::string>, std::size_t> open_;  // index in events_, by process and id
    repair_counter timeless_, taken_twice_;
};

}  // namespace cuota::inline v0::detail
