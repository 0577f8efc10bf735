// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Many threads on one tree of budgets, for a chosen time: CUOTA_STRESS=<operations of each of four lanes>.
#include <cuota/guard/budget.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <cuota/core/detail/threads/thread_slot.hpp>

#include "support/catch.hpp"
#include "support/rounds.hpp"
#include "support/sink.hpp"

using cuota::budget;
using cuota::unlimited;

namespace {

constexpr std::size_t lanes = 4;
constexpr std::size_t modest = 2;     // lanes whose charges always fit
constexpr std::size_t quota = 2'000;  // bytes that each of these may hold

class dice {
public:
    explicit dice(std::uint64_t seed) : state_{seed * 0x9e3779b97f4a7c15u + 1} {}
    std::size_t below(std::size_t n) {
        state_ ^= state_ << 13;
        state_ ^= state_ >> 7;
        state_ ^= state_ << 17;
        return static_cast<std::size_t>((state_ >> 11) % n);
    }
    bool one_in(std::size_t n) { return below(n) == 0; }

private:
    std::uint64_t state_;
};

// A count that is independent of a budget's. It is increased after a charge and decreased before a refund, so always now <= held <= limit.
struct counted {
    std::size_t limit;
    std::atomic<std::size_t> now = 0;
    std::atomic<std::size_t> most = 0;
    std::atomic<bool> over = false;

    void add(std::size_t bytes) {
        std::size_t const sum = now.fetch_add(bytes) + bytes;
        if (sum > limit) over = true;
        std::size_t before = most.load(std::memory_order_relaxed);
        while (before < sum && !most.compare_exchange_weak(before, sum)) {}
    }
    void subtract(std::size_t bytes) { now -= bytes; }
};

// A charge that any thread may refund.
struct charged {
    budget at;
    std::size_t bytes;
    counted* below;                       // the child of root whose bytes include it, or null
    std::atomic<std::size_t>* of_a_lane;  // the lane's quota that includes it, or null
    bool is_counted;
};

template <class T>
struct guarded {
    std::mutex guard;
    std::optional<T> value;
};

struct tree {
    budget root{"root", 10'000};
    budget fits{"fits", modest* quota, root};
    budget tight{"tight", 6'000, root};
    counted in_root{10'000}, in_fits{modest * quota}, in_tight{6'000};
    std::array<std::atomic<std::size_t>, modest> used{};
    std::array<guarded<charged>, 32> handed_over;
    std::array<guarded<cuota::reservation>, 4> reserved;
    std::mutex limits;  // held by the lane that changes the limit of tight
    std::atomic<std::uint64_t> lowered = 0;

    std::atomic<std::uint64_t> granted = 0, refused = 0, falsely_refused = 0, wrongly_granted = 0;
    std::atomic<std::uint64_t> by_others = 0, reservations = 0, threads = 0;

    void count(charged const& c) {
        if (!c.is_counted) return;
        if (c.below) c.below->add(c.bytes);
        in_root.add(c.bytes);
    }
    void give_back(charged c) {
        if (c.is_counted) {
            if (c.below) c.below->subtract(c.bytes);
            in_root.subtract(c.bytes);
        }
        c.at.refund(c.bytes);
        if (c.of_a_lane) *c.of_a_lane -= c.bytes;
    }
};

// A sequence of operations that is made by a succession of threads.
class lane {
public:
    lane(tree& on, std::size_t number) : on_{on}, number_{number}, random_{number + 1} {}

    void run(std::uint64_t operations) {
        for (done_ = 0; done_ < operations;) {
            std::uint64_t const until = done_ + 1 + random_.below(4'000);
            ++on_.threads;
            std::thread{[&] {
                while (done_ < until && done_ < operations) step();
            }}.join();
        }
        while (!mine_.empty()) give_back_one();
    }

private:
    void step() {
        std::size_t const what = random_.below(1'000);
        ++done_;
        if (what < 450) charge();
        else if (what < 850) give_back_one();
        else if (what < 930) swap_with_others();
        else if (what < 960) ask_for_what_never_fits();
        else if (what < 975) mine_alone_ = child();
        else if (what < 993) reserve();
        else if (what < 998) hurry();
        else if (what < 999) squeeze();
        else look();
    }

    [[nodiscard]] bool is_modest() const { return number_ < modest; }
    [[nodiscard]] counted& ours() { return is_modest() ? on_.in_fits : on_.in_tight; }
    [[nodiscard]] budget& ours_at() { return is_modest() ? on_.fits : on_.tight; }
    [[nodiscard]] std::atomic<std::size_t>* my_quota() { return is_modest() ? &on_.used[number_] : nullptr; }
    [[nodiscard]] budget child() {
        return budget{"child", random_.one_in(2) || is_modest() ? unlimited : 100 + random_.below(900),
                      ours_at()};
    }

    // Returns true if a charge succeeded and was added to mine_.
    bool charge() {
        if (mine_.size() == 32) return give_back_one(), false;
        std::size_t const bytes = random_.below(is_modest() ? 300 : 1'500);
        if (is_modest() && *my_quota() + bytes > quota) return give_back_one(), false;
        bool const at_root = is_modest() && random_.one_in(4);
        charged c{at_root             ? on_.root
                  : random_.one_in(2) ? mine_alone_
                                      : ours_at(),
                  bytes, at_root ? nullptr : &ours(), my_quota(), true};
        if (c.of_a_lane) *c.of_a_lane += bytes;
        if (!c.at.try_charge(bytes)) {
            ++(is_modest() ? on_.falsely_refused : on_.refused);
            if (c.of_a_lane) *c.of_a_lane -= bytes;
            return false;
        }
        ++on_.granted;
        on_.count(c);
        mine_.push_back(std::move(c));
        return true;
    }
    void give_back_one() {
        if (mine_.empty()) return;
        std::swap(mine_[random_.below(mine_.size())], mine_.back());
        charged c = std::move(mine_.back());
        mine_.pop_back();
        on_.give_back(std::move(c));
    }
    void swap_with_others() {
        guarded<charged>& slot = on_.handed_over[random_.below(on_.handed_over.size())];
        std::optional<charged> theirs;
        if (!mine_.empty()) {
            theirs = std::move(mine_.back());
            mine_.pop_back();
        }
        {
            std::scoped_lock const lock{slot.guard};
            std::swap(slot.value, theirs);
        }
        if (!theirs) return;
        ++on_.by_others;
        on_.give_back(*std::move(theirs));
    }
    void ask_for_what_never_fits() {
        bool const granted =
            random_.one_in(2) ? on_.root.try_charge(10'001) : mine_alone_.try_charge(unlimited);
        if (granted) ++on_.wrongly_granted;
        if (!random_.one_in(32)) return;
        try {
            on_.tight.charge(6'001 + random_.below(10));
            ++on_.wrongly_granted;
        } catch (cuota::budget_exceeded const&) { ++on_.refused; }
    }
    // Charges and refunds repeatedly. An undisturbed thread does this without a lock.
    void hurry() {
        for (int i = 0; i != 50; ++i, done_ += 2)
            if (charge()) give_back_one();
    }
    // Lowers a limit for a moment, in which no lane may hold more.
    void squeeze() {
        std::unique_lock const lock{on_.limits, std::try_to_lock};
        if (!lock) return;
        std::size_t const limit = random_.below(6'000);
        try {
            on_.tight.set_limit(limit);
        } catch (cuota::budget_exceeded const&) {
            ++on_.refused;
            return;
        }
        ++on_.lowered;
        for (int i = 0; i != 50; ++i)
            if (on_.in_tight.now > limit || on_.tight.held() > limit) on_.in_tight.over = true;
        on_.tight.set_limit(6'000);
    }
    void look() {
        for (auto const& [b, count] :
             {std::pair{on_.root, &on_.in_root}, {on_.fits, &on_.in_fits}, {on_.tight, &on_.in_tight}}) {
            cuota::budget_info const now = b.info();
            // The limit of tight may be lower than its peak, and have changed before the call of available().
            if (now.held > now.limit || now.peak > count->limit || b.available() > count->limit)
                count->over = true;
        }
    }

    // Makes, grows, shrinks, charges or ends a reservation, which may be another lane's.
    void reserve() {
        guarded<cuota::reservation>& slot = on_.reserved[random_.below(on_.reserved.size())];
        std::size_t const bytes = random_.below(800);
        std::unique_lock const lock{slot.guard};
        try {
            if (!slot.value) {
                slot.value = on_.tight.reserve(bytes);
                count_reserved(bytes);
                ++on_.reservations;
            } else if (random_.one_in(3)) {
                uncount_reserved(slot.value->bytes());
                slot.value.reset();
            } else if (random_.one_in(2)) {
                slot.value->grow(bytes);
                count_reserved(bytes);
            } else if (budget inside = slot.value->as_budget(); random_.one_in(2)) {
                if (mine_.size() < 32 && inside.try_charge(bytes / 4))
                    mine_.push_back({inside, bytes / 4, nullptr, nullptr, false});
            } else {
                shrink(*slot.value, inside.available());
            }
        } catch (cuota::budget_exceeded const&) { ++on_.refused; }
    }
    void shrink(cuota::reservation& r, std::size_t less) {
        uncount_reserved(less);
        r.shrink(less);  // charges to it require the lock, so inside.available() is still valid
    }
    void count_reserved(std::size_t bytes) {
        on_.in_tight.add(bytes);
        on_.in_root.add(bytes);
    }
    void uncount_reserved(std::size_t bytes) {
        on_.in_tight.subtract(bytes);
        on_.in_root.subtract(bytes);
    }

    tree& on_;
    std::size_t const number_;
    dice random_;
    std::uint64_t done_ = 0;
    std::vector<charged> mine_;
    budget mine_alone_ = child();
};

// While it exists, new threads get thread records with two indices (modulo 16) only, so that they contend for these stocks of a budget.
class few_places {
public:
    few_places() {
        std::vector<std::thread> leaving;
        for (unsigned made = 1; made != 65; ++made) {
            std::thread fresh{[this] {
                bool const leaves = cuota::detail::this_thread()->index % 16 < 2;
                last_leaves_ = leaves;
                ++there_;
                (leaves ? first_end_ : last_end_).wait(false);
            }};
            while (there_ != made) std::this_thread::yield();
            (last_leaves_ ? leaving : staying_).push_back(std::move(fresh));
        }
        end(first_end_);
        for (std::thread& t : leaving) t.join();
    }
    few_places(few_places const&) = delete;
    few_places& operator=(few_places const&) = delete;
    ~few_places() {
        end(last_end_);
        for (std::thread& t : staying_) t.join();
    }

private:
    static void end(std::atomic<bool>& which) {
        which = true;
        which.notify_all();
    }

    std::atomic<unsigned> there_ = 0;
    std::atomic<bool> last_leaves_ = false, first_end_ = false, last_end_ = false;
    std::vector<std::thread> staying_;
};

std::uint64_t operations() {
    char const* const told = std::getenv("CUOTA_STRESS");
    return told ? std::strtoull(told, nullptr, 10)
                : std::max<std::uint64_t>(20'000, support::rounds<std::uint64_t>(200'000));
}

}  // namespace

TEST_CASE("budgets and reservations of many threads never exceed a limit and never refuse what fits",
          "[guard][budget][stress]") {
    // First every thread has a stock of its own, then threads have to share stocks.
    bool const share = GENERATE(false, true);
    std::optional<few_places> few;
    if (share) few.emplace();
    support::captured_errors errors;
    tree on;
    {
        std::vector<lane> all;
        for (std::size_t i = 0; i != lanes; ++i) all.emplace_back(on, i);
        std::vector<std::thread> threads;
        for (lane& l : all) threads.emplace_back([&l] { l.run(operations()); });
        for (std::thread& t : threads) t.join();
    }
    for (auto& slot : on.handed_over)
        if (slot.value) on.give_back(*std::exchange(slot.value, std::nullopt));
    for (auto& slot : on.reserved) slot.value.reset();

    INFO((share ? "two places: " : "a place each: ")
         << on.granted << " granted, " << on.refused << " refused, " << on.by_others
         << " refunded by others, " << on.reservations << " reservations, " << on.threads << " threads");
    if (std::getenv("CUOTA_STRESS"))
        std::printf(
            "%s%llu granted, %llu refused, %llu refunded by others, %llu reservations, %llu threads\n",
            share ? "two places: " : "a place each: ", static_cast<unsigned long long>(on.granted),
            static_cast<unsigned long long>(on.refused), static_cast<unsigned long long>(on.by_others),
            static_cast<unsigned long long>(on.reservations), static_cast<unsigned long long>(on.threads));
    CHECK(on.falsely_refused == 0);
    CHECK(on.wrongly_granted == 0);
    CHECK(on.granted > 0);
    CHECK(on.lowered > 0);
    CHECK(errors.take().empty());  // no refund was rejected
    for (auto const& [b, count] :
         {std::pair{on.root, &on.in_root}, {on.fits, &on.in_fits}, {on.tight, &on.in_tight}}) {
        CHECK(!count->over);
        CHECK(b.held() == 0);
        CHECK(b.available() == b.limit());
        CHECK(b.peak() <= b.limit());
        CHECK(b.peak() >= count->most);
    }
    CHECK(on.root.try_charge(10'000));
    CHECK(!on.root.try_charge(1));
    on.root.refund(10'000);
}
