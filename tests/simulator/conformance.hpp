// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "support/catch.hpp"

/// Shared by the tests of CUDA's own rules. Nothing here depends on the simulator, so the files conformance_* also hold for the real
/// runtime.
namespace conformance {

inline constexpr std::size_t MiB = std::size_t{1} << 20;

inline void* device_memory(std::size_t bytes) {
    void* p = nullptr;
    REQUIRE(cudaMalloc(&p, bytes) == cudaSuccess);
    return p;
}

inline unsigned char* pinned_memory(std::size_t bytes) {
    void* p = nullptr;
    REQUIRE(cudaMallocHost(&p, bytes) == cudaSuccess);
    return static_cast<unsigned char*>(p);
}

inline cudaStream_t new_stream(unsigned flags = cudaStreamDefault) {
    cudaStream_t s = nullptr;
    REQUIRE(cudaStreamCreateWithFlags(&s, flags) == cudaSuccess);
    return s;
}

inline cudaEvent_t new_event(unsigned flags = cudaEventDefault) {
    cudaEvent_t e = nullptr;
    REQUIRE(cudaEventCreateWithFlags(&e, flags) == cudaSuccess);
    return e;
}

/// Returns the bytes of device memory after all work of the device has finished.
inline std::vector<unsigned char> contents(void const* device, std::size_t bytes) {
    std::vector<unsigned char> host(bytes);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    REQUIRE(cudaMemcpy(host.data(), device, bytes, cudaMemcpyDeviceToHost) == cudaSuccess);
    return host;
}

inline bool all_are(std::vector<unsigned char> const& bytes, unsigned char value) {
    for (auto const b : bytes)
        if (b != value) return false;
    return !bytes.empty();
}

/// Blocks a stream at this point until it is opened. Uses a host function, as any program may.
///
/// While it is closed, a test must not wait for another host function: CUDA may run host functions of independent streams in sequence. A
/// gate opens itself after 10 seconds, so that a call that waits for it fails the test instead of hanging it.
class gate {
public:
    static constexpr std::chrono::seconds longest_wait{10};

    explicit gate(cudaStream_t s) {
        closed::all().add(shared_);
        REQUIRE(cudaLaunchHostFunc(s, wait, shared_.get()) == cudaSuccess);
    }
    gate(gate const&) = delete;
    gate& operator=(gate const&) = delete;
    ~gate() { open(); }

    void open() {
        if (!std::exchange(opened_, true)) shared_->opening.set_value();
    }
    [[nodiscard]] bool passed() const { return shared_->passed; }

    /// Waits until the stream has reached the gate.
    void wait_until_reached() { shared_->reaching.get_future().wait(); }

private:
    struct facts {
        std::promise<void> opening, reaching;
        std::atomic<bool> passed{false};
    };

    // Gates that streams have not reached yet. If the device fails first, a gate stays here.
    class closed {
    public:
        static closed& all() {
            static auto& them = *new closed;  // never destroyed: streams may run until exit
            return them;
        }
        void add(std::shared_ptr<facts> one) {
            std::scoped_lock const lock{guard_};
            waiting_.push_back(std::move(one));
        }
        std::shared_ptr<facts> take(void const* one) {
            std::scoped_lock const lock{guard_};
            auto const at = std::find_if(waiting_.begin(), waiting_.end(),
                                         [one](auto const& w) { return w.get() == one; });
            auto found = std::move(*at);
            waiting_.erase(at);
            return found;
        }

    private:
        std::mutex guard_;
        std::vector<std::shared_ptr<facts>> waiting_;
    };

    static void wait(void* data) {
        std::shared_ptr<facts> const mine = closed::all().take(data);
        mine->reaching.set_value();
        (void)mine->opening.get_future().wait_for(longest_wait);
        mine->passed = true;
    }

    std::shared_ptr<facts> shared_ = std::make_shared<facts>();
    bool opened_ = false;
};

/// Returns whether `call`, made on another thread, returns only after the gate has opened. A call that waits always passes; one that does
/// not gets ample time to return early.
template <class Call>
bool returns_after(gate& g, Call call) {
    std::promise<void> begun;
    auto outcome = std::async(std::launch::async, [&] {
        begun.set_value();
        bool const succeeded = call() == cudaSuccess;
        return succeeded && g.passed();
    });
    begun.get_future().wait();
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
    g.open();
    return outcome.get();
}

/// Returns the result of a call that CUDA allows to wait for preceding work: the gate opens while it waits.
template <class Call>
auto may_wait_for(gate& g, Call call) {
    auto result = std::async(std::launch::async, call);
    (void)result.wait_for(std::chrono::milliseconds{50});
    g.open();
    return result.get();
}

/// Device memory, pinned memory, and a stream that executes nothing until `closed` is opened.
struct stopped_stream {
    static constexpr std::size_t size = 4000;  ///< bytes of each

    void* device = device_memory(size);
    unsigned char* pinned = pinned_memory(size);
    cudaStream_t stream = new_stream(cudaStreamNonBlocking);
    gate closed{stream};

    ~stopped_stream() {
        closed.open();
        CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
        CHECK(cudaFree(device) == cudaSuccess);
        CHECK(cudaFreeHost(pinned) == cudaSuccess);
        CHECK(cudaStreamDestroy(stream) == cudaSuccess);
        (void)cudaGetLastError();
    }
};

}  // namespace conformance
