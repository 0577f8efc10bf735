// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Logs refusals as JSON lines.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/text/json.hpp>
#include <cuota/core/detail/text/text.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/core/refusal_json.hpp>

namespace cuota::inline v0 {

namespace detail {

/// Formats "2026-01-31T23:59:59.123Z".
[[nodiscard]] std::string utc_text(std::chrono::system_clock::time_point at);

}  // namespace detail

/// Options of a refusal_log.
struct refusal_log_options {
    /// Refusals of one kind within it share a line.
    std::chrono::nanoseconds window = std::chrono::seconds{10};
    std::size_t max_kinds = 256;   ///< kinds distinguished per window
    std::size_t max_holders = 32;  ///< holders per line, see refusal_json
    /// Clock.
    std::function<std::chrono::system_clock::time_point()> now = [] {
        return std::chrono::system_clock::now();
    };
};

/// Logs refusals as lines of JSON: a line for the first refusal of a kind (budget, tag and call site), then a line per `window` with the
/// number of further ones, written with the next refusal of any kind after it, by flush(), or by the destructor.
///
///     refusal_log log{stderr};
///     try { ... } catch (out_of_memory const& e) { log.write(e.facts()); }
///
///     {"time":"2026-01-31T23:59:59.123Z","level":"warning","event":"refused","refusal":{as by refusal_json}}
///     {"time":...,"level":"warning","event":"refused_again","text":"and 1'204 more like it in 10 s","more":1204,...}
///
/// The level is "warning" if a budget refused, "error" if the device did. A window has at most 2 * (max_kinds + 1) lines: further kinds
/// are counted as one.
///
/// Threads: any. The sink is called under the log's lock, so it must not wait for threads that log; refusals within it are lost.
/// Throws:  logging never throws; the first failed line is reported to the error sink.
/// Cost:    a lock and a look-up for a suppressed refusal; microseconds plus the sink's time for a line.
class refusal_log {
public:
    using clock = std::chrono::system_clock;  ///< of the times in lines
    /// Writes a line, passed without its newline. If it throws, the line counts as not written.
    using sink = std::function<void(std::string_view line)>;

    using options = refusal_log_options;  ///< options of the log
    /// Totals since construction: seen == refusals written + suppressed + lost.
    struct counts {
        std::uint64_t seen = 0;        ///< refusals
        std::uint64_t lines = 0;       ///< lines written
        std::uint64_t suppressed = 0;  ///< counted by a "refused_again" line
        std::uint64_t lost = 0;        ///< not written
    };

    /// Throws: usage_error for an empty sink or clock; std::bad_alloc.
    explicit refusal_log(sink to, options how = {}, source_location where = source_location::current());
    /// Writes to a file that must outlive the log, and flushes every line. Throws: also usage_error for a null file.
    explicit refusal_log(std::FILE* file, options how = {},
                         source_location where = source_location::current())
        : refusal_log{sink_of(file, where), std::move(how), where} {}
    /// Writes likewise to a stream.
    explicit refusal_log(std::ostream& stream, options how = {},
                         source_location where = source_location::current())
        : refusal_log{sink_of(stream), std::move(how), where} {}

    refusal_log(refusal_log const&) = delete;  // the sink has a single writer
    refusal_log& operator=(refusal_log const&) = delete;
    ~refusal_log() {
        if (!guard_.is_of_parent()) flush();
    }

    /// Logs or counts a refusal. In a forked child, only reports misuse.
    void write(refusal const& r) noexcept;
    /// Logs or counts a caught refusal.
    void write(out_of_memory const& e) noexcept { write(e.info()); }

    /// Writes the pending counts and starts new windows.
    void flush() noexcept;

    /// Returns the totals, in four separate reads.
    [[nodiscard]] counts count() const noexcept;

private:
    using kind_key = std::tuple<std::string, std::string, std::string, unsigned>;  // budget, tag, file, line
    struct kind {
        clock::time_point since;  // time of its line
        clock::time_point last;
        std::uint64_t more = 0;
        std::size_t requested = 0;  // bytes requested by those
        char const* level = "";
    };

    [[nodiscard]] static sink sink_of(std::FILE* file, source_location where);
    [[nodiscard]] static sink sink_of(std::ostream& stream);

    // Reports the first error after unlocking.
    template <class Step>
    void logging(Step step, bool is_refusal) noexcept {
        if (guard_.is_of_parent()) return detail::report_forked();
        if (is_refusal) ++seen_;
        std::exception_ptr failure;
        if (busy_.load(std::memory_order_relaxed) == std::this_thread::get_id()) {  // called by the sink
            if (is_refusal) ++lost_;
            return;
        }
        try {
            std::lock_guard<std::mutex> const lock{guard_};  // the sink may be slow
            busy_.store(std::this_thread::get_id(), std::memory_order_relaxed);
            if (!attempt(step) && is_refusal) ++lost_;
            busy_.store(std::thread::id{}, std::memory_order_relaxed);
            if (failure_ && !std::exchange(has_told_, true)) failure = failure_;
        } catch (...) {  // locking failed
            if (is_refusal) ++lost_;
        }
        if (failure) (void)report_failure_of([&] { std::rethrow_exception(failure); });
    }
    template <class Step>
    bool attempt(Step step) noexcept {
        try {
            step();
            return true;
        } catch (...) {
            if (!failure_) failure_ = std::current_exception();
            return false;
        }
    }

    void write_locked(refusal const& r, clock::time_point now);
    void suppress(kind& k, refusal const& r, clock::time_point now) noexcept;
    template <class Which>
    void end_kinds(clock::time_point now, Which ends) {
        next_end_ = clock::time_point::max();
        for (auto at = kinds_.begin(); at != kinds_.end();) {
            if (!ends(at->second)) {
                next_end_ = std::min(next_end_, at->second.since + how_.window);
                ++at;
                continue;
            }
            auto const ended = kinds_.extract(at++);
            if (ended.mapped().more != 0)
                // A failure does not stop the others.
                attempt([&] { tell_the_rest(ended.key(), ended.mapped(), now); });
        }
    }
    void tell_the_rest(kind_key const& key, kind const& k, clock::time_point now);
    [[nodiscard]] static detail::json_object begin_line(clock::time_point now, char const* level,
                                                        char const* event);
    void to_line(std::string const& line);
    // A key that no refusal has.
    [[nodiscard]] static kind_key all_others() { return {"", "", "", ~0U}; }
    [[nodiscard]] static kind_key key_of(refusal const& r);

    sink const to_;
    options const how_;
    detail::object_lock guard_;
    std::map<kind_key, kind> kinds_;
    clock::time_point next_end_ = clock::time_point::max();  // earliest end of a window
    clock::time_point latest_ = clock::time_point::min();
    std::exception_ptr failure_;  // the first
    bool has_told_ = false;
    std::atomic<std::thread::id> busy_{};  // thread inside the sink
    std::atomic<std::uint64_t> seen_ = 0;
    std::atomic<std::uint64_t> lines_ = 0;
    std::atomic<std::uint64_t> suppressed_ = 0;
    std::atomic<std::uint64_t> lost_ = 0;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail {

CUOTA_INLINE std::string utc_text(std::chrono::system_clock::time_point at) {
    using namespace std::chrono;
    auto const whole = floor<milliseconds>(at);
    auto const day = floor<days>(whole);
    year_month_day const date{day};
    auto const rest = (whole - day).count();  // milliseconds
    char text[64];
    std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02d.%03dZ", static_cast<int>(date.year()),
                  static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                  static_cast<int>(rest / 3'600'000), static_cast<int>(rest / 60'000 % 60),
                  static_cast<int>(rest / 1000 % 60), static_cast<int>(rest % 1000));
    return text;
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE refusal_log::refusal_log(sink to, options how, source_location where)
    : to_{std::move(to)}, how_{std::move(how)} {
    if (!to_ || !how_.now) detail::throw_usage_error(where, "refusal_log: a sink and a clock are required");
}

CUOTA_INLINE void refusal_log::write(refusal const& r) noexcept {
    logging([&] { write_locked(r, how_.now()); }, true);
}

CUOTA_INLINE void refusal_log::flush() noexcept {
    logging([&] { end_kinds(how_.now(), [](kind const&) { return true; }); }, false);
}

CUOTA_INLINE auto refusal_log::count() const noexcept -> counts {
    return {seen_.load(), lines_.load(), suppressed_.load(), lost_.load()};
}

CUOTA_INLINE auto refusal_log::sink_of(std::FILE* file, source_location where) -> sink {
    if (!file) detail::throw_usage_error(where, "refusal_log: the file is null");
    return [file](std::string_view line) {
        // In one write, because others may write to the file.
        std::string const whole = std::string{line} + '\n';
        if (std::fwrite(whole.data(), 1, whole.size(), file) != whole.size() || std::fflush(file) != 0) {
            std::clearerr(file);
            throw std::runtime_error{"cuota::refusal_log: write failed"};
        }
    };
}

CUOTA_INLINE auto refusal_log::sink_of(std::ostream& stream) -> sink {
    return [&stream](std::string_view line) {
        stream << line << '\n' << std::flush;
        if (!stream) throw std::runtime_error{"cuota::refusal_log: write failed"};
    };
}

CUOTA_INLINE void refusal_log::write_locked(refusal const& r, clock::time_point now) {
    if (now >= next_end_ || now < latest_)
        end_kinds(now, [&](kind const& k) { return now - k.since >= how_.window || now < k.since; });
    latest_ = now;
    kind_key key = key_of(r);
    if (kinds_.size() >= how_.max_kinds && !kinds_.contains(key)) key = all_others();
    auto const found = kinds_.find(key);
    if (found != kinds_.end()) return suppress(found->second, r, now);
    char const* const level = r.shortfall() != 0 ? "warning" : "error";
    std::string const line =
        begin_line(now, level, "refused").add_json("refusal", refusal_json(r, how_.max_holders)).text();
    next_end_ = kinds_.empty() ? now + how_.window : std::min(next_end_, now + how_.window);
    // Added before writing: a failed line would fail again.
    kinds_.emplace(std::move(key), kind{now, now, 0, 0, level});
    to_line(line);
}

CUOTA_INLINE void refusal_log::suppress(kind& k, refusal const& r, clock::time_point now) noexcept {
    ++k.more;
    k.requested = detail::saturating_add(k.requested, r.requested);
    k.last = now;
    ++suppressed_;
}

CUOTA_INLINE void refusal_log::tell_the_rest(kind_key const& key, kind const& k, clock::time_point now) {
    auto const& [budget, name, file, line] = key;
    bool const is_mixed = key == all_others();
    auto const span = std::chrono::ceil<std::chrono::seconds>(k.last - k.since).count();
    auto const seconds = static_cast<std::uint64_t>(std::max(span, decltype(span){1}));
    auto rest = begin_line(now, k.level, "refused_again");
    rest.add("text", "and " + count_text(k.more) +
                         (is_mixed ? " more of other kinds in " : " more like it in ") + count_text(seconds) +
                         " s");
    rest.add("more", static_cast<std::size_t>(k.more)).add("requested", k.requested);
    rest.add("seconds", static_cast<std::size_t>(seconds)).add("budget", budget).add("tag", name);
    rest.add_json("location",
                  detail::json_location(is_mixed ? source_location{} : source_location{file.c_str(), line}));
    to_line(rest.text());
}

CUOTA_INLINE detail::json_object refusal_log::begin_line(clock::time_point now, char const* level,
                                                         char const* event) {
    detail::json_object line;
    line.add("time", detail::utc_text(now)).add("level", level).add("event", event);
    return line;
}

CUOTA_INLINE void refusal_log::to_line(std::string const& line) {
    to_(line);
    ++lines_;
}

CUOTA_INLINE auto refusal_log::key_of(refusal const& r) -> kind_key {
    std::string path;
    for (budget_info const& b : r.budgets) path.insert(0, path.empty() ? b.name : b.name + '/');
    return {std::move(path), r.request.name.text(), r.request.where.file, r.request.where.line};
}

}  // namespace cuota::inline v0

#endif
