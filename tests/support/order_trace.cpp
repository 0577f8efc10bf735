// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include "support/order_trace.hpp"

#include <map>
#include <stdexcept>

// The linker redirects the program's calls of these functions to their wrappers (--wrap).
extern "C" {
cudaError_t __real_cudaEventRecord(cudaEvent_t e, cudaStream_t s);
cudaError_t __real_cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags);
cudaError_t __real_cudaStreamSynchronize(cudaStream_t s);
cudaError_t __real_cudaStreamQuery(cudaStream_t s);
cudaError_t __real_cudaEventSynchronize(cudaEvent_t e);
cudaError_t __real_cudaEventQuery(cudaEvent_t e);
cudaError_t __real_cudaDeviceSynchronize();

cudaError_t __wrap_cudaEventRecord(cudaEvent_t e, cudaStream_t s);
cudaError_t __wrap_cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags);
cudaError_t __wrap_cudaStreamSynchronize(cudaStream_t s);
cudaError_t __wrap_cudaStreamQuery(cudaStream_t s);
cudaError_t __wrap_cudaEventSynchronize(cudaEvent_t e);
cudaError_t __wrap_cudaEventQuery(cudaEvent_t e);
cudaError_t __wrap_cudaDeviceSynchronize();
}

namespace support {
namespace {

thread_local order_trace* present = nullptr;

std::uint64_t id_of(cudaStream_t s) {
    unsigned long long id = 0;
    if (cudaStreamGetId(s, &id) != cudaSuccess) throw std::runtime_error{"a stream without an id"};
    return id;
}

class step_set {
public:
    explicit step_set(std::size_t most) : words_((most + 63) / 64) {}
    void add(std::size_t i) { words_[i / 64] |= std::uint64_t{1} << i % 64; }
    void add(step_set const& other) {
        for (std::size_t w = 0; w != words_.size(); ++w) words_[w] |= other.words_[w];
    }
    [[nodiscard]] bool has(std::size_t i) const { return (words_[i / 64] >> i % 64 & 1) != 0; }

private:
    std::vector<std::uint64_t> words_;
};

// Records a call of the library that has succeeded.
template <class Note>
cudaError_t noted(cudaError_t result, Note note) {
    if (result == cudaSuccess)
        if (order_trace* const trace = order_trace::of_this_thread()) note(*trace);
    return result;
}

}  // namespace

order_trace::order_trace() {
    if (present) throw std::logic_error{"one order_trace at a time"};
    present = this;
}
order_trace::~order_trace() { present = nullptr; }
order_trace* order_trace::of_this_thread() noexcept { return present; }

void order_trace::touches(cudaStream_t s, void const* first, std::size_t bytes, bool writes) {
    auto const begin = reinterpret_cast<std::uintptr_t>(first);
    steps_.push_back({what::access, id_of(s), nullptr, begin, begin + bytes, writes});
}
void order_trace::records(cudaEvent_t e, cudaStream_t s) {
    steps_.push_back({what::records, id_of(s), e, 0, 0, false});
}
bool order_trace::waits(cudaStream_t s, cudaEvent_t e) {
    if (++waits_ == left_out_) return false;
    steps_.push_back({what::waits, id_of(s), e, 0, 0, false});
    return true;
}
void order_trace::host_waits_for(cudaStream_t s) {
    steps_.push_back({what::host_waits_for_stream, id_of(s), nullptr, 0, 0, false});
}
void order_trace::host_waits_for(cudaEvent_t e) {
    steps_.push_back({what::host_waits_for_event, 0, e, 0, 0, false});
}
void order_trace::host_waits_for_all() {
    steps_.push_back({what::host_waits_for_all, 0, nullptr, 0, 0, false});
}

bool order_trace::has_race() const {
    std::vector<step_set> before(steps_.size(), step_set{steps_.size()});
    step_set host{steps_.size()};                    // steps that the host has waited for
    std::map<std::uint64_t, std::size_t> last;       // latest step of each stream
    std::map<cudaEvent_t, std::size_t> recorded_at;  // step of the latest record
    auto const join = [&](step_set& into, std::size_t i) {
        into.add(before[i]);
        into.add(i);
    };
    for (std::size_t i = 0; i != steps_.size(); ++i) {
        step const& now = steps_[i];
        auto const event = recorded_at.find(now.event);
        auto const stream = last.find(now.stream);
        if (now.kind == what::host_waits_for_event && event != recorded_at.end()) join(host, event->second);
        if (now.kind == what::host_waits_for_stream && stream != last.end()) join(host, stream->second);
        if (now.kind == what::host_waits_for_all)
            for (auto const& [id, at] : last) join(host, at);
        if (now.kind != what::records && now.kind != what::waits && now.kind != what::access) continue;
        before[i].add(host);
        if (stream != last.end()) join(before[i], stream->second);
        if (now.kind == what::waits && event != recorded_at.end()) join(before[i], event->second);
        if (now.kind == what::records) recorded_at[now.event] = i;
        last[now.stream] = i;
        if (now.kind != what::access) continue;
        for (std::size_t k = 0; k != i; ++k) {
            step const& other = steps_[k];
            bool const meet = other.kind == what::access && other.begin < now.end && now.begin < other.end;
            if (meet && (now.writes || other.writes) && !before[i].has(k)) return true;
        }
    }
    return false;
}

}  // namespace support

using support::noted;
using support::order_trace;

cudaError_t __wrap_cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
    return noted(__real_cudaEventRecord(e, s), [&](order_trace& t) { t.records(e, s); });
}
cudaError_t __wrap_cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags) {
    if (order_trace* const trace = order_trace::of_this_thread(); trace && !trace->waits(s, e))
        return cudaSuccess;
    return __real_cudaStreamWaitEvent(s, e, flags);
}
cudaError_t __wrap_cudaStreamSynchronize(cudaStream_t s) {
    return noted(__real_cudaStreamSynchronize(s), [&](order_trace& t) { t.host_waits_for(s); });
}
cudaError_t __wrap_cudaStreamQuery(cudaStream_t s) {
    return noted(__real_cudaStreamQuery(s), [&](order_trace& t) { t.host_waits_for(s); });
}
cudaError_t __wrap_cudaEventSynchronize(cudaEvent_t e) {
    return noted(__real_cudaEventSynchronize(e), [&](order_trace& t) { t.host_waits_for(e); });
}
cudaError_t __wrap_cudaEventQuery(cudaEvent_t e) {
    return noted(__real_cudaEventQuery(e), [&](order_trace& t) { t.host_waits_for(e); });
}
cudaError_t __wrap_cudaDeviceSynchronize() {
    return noted(__real_cudaDeviceSynchronize(), [](order_trace& t) { t.host_waits_for_all(); });
}
