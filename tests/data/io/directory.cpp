// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/io/directory.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <sys/resource.h>

#include <cuota/data/datasets/callable_dataset.hpp>
#include <cuota/data/datasets/raw_dataset.hpp>
#include <cuota/data/samplers/permutation.hpp>

#include "support/catch.hpp"
#include "support/samples.hpp"
#include "support/sanitizer.hpp"
#include "support/temp_folder.hpp"
#include "support/thrown.hpp"

namespace {

using cuota::directory_of;
using support::gathered;
using support::mentions;

auto const letters = [](std::string const& path) {
    return cuota::raw_dataset{path, {.fields = {{"letter"}}}};
};

}  // namespace

TEST_CASE("directory_of opens the files with an extension in the byte order of their names",
          "[data][directory]") {
    support::temp_folder const folder;
    for (char const* name : {"b.raw", "10.raw", "9.raw", "B.raw", "\xc3\xa9.raw", "a.raw"})
        folder.write(name, std::string{name}.substr(0, 2));
    folder.write("a.txt", "no");
    folder.write("._a.raw", "no");
    folder.write(".raw", "no");
    folder.write("araw", "no");
    std::filesystem::create_directory(folder.path("folder.raw"));

    std::vector<std::string> opened;
    auto const all = directory_of(folder.path(), ".raw", [&](std::string const& path) {
        opened.push_back(std::filesystem::path{path}.filename());
        return letters(path);
    });
    CHECK(opened == std::vector<std::string>{"10.raw", "9.raw", "B.raw", "a.raw", "b.raw", "\xc3\xa9.raw"});
    CHECK(all.size() == 12);
    CHECK(all.name() == folder.path("10.raw") + " and 5 more");
    CHECK(gathered(all, support::first_samples(12))[0] == "109.B.a.b.\xc3\xa9");
}

TEST_CASE("directory_of selects files by a function of their names", "[data][directory]") {
    support::temp_folder const folder;
    for (char const* name : {"train-1", "train-2", "test-1"}) folder.write(name, name);

    auto const train = directory_of(
        folder.path(), [](std::string const& name) { return name.starts_with("train"); }, letters);
    CHECK(gathered(train, support::first_samples(train.size()))[0] == "train-1train-2");
    CHECK(directory_of(folder.path() + '/', std::string{"1"}, letters).size() == 13);
}

TEST_CASE("directory_of reports invalid directories and files", "[data][directory]") {
    support::temp_folder const folder;
    auto const failure = [&](std::string const& path) {
        return support::thrown<cuota::data_error>([&] { (void)directory_of(path, ".raw", letters); });
    };

    CHECK(failure(folder.path()).file() == folder.path());
    CHECK(failure(folder.path()).why() == "no matching file in the directory");
    auto const missing = failure(folder.path("missing"));
    CHECK(missing.file() == folder.path("missing"));
    CHECK(mentions(missing.why(), "cannot be listed: No such file or directory"));
    CHECK(mentions(failure(folder.write("file", "text")).why(), "cannot be listed: Not a directory"));

    std::filesystem::create_symlink("nowhere",
                                    folder.path("broken.raw"));  // a missing shard is not skipped
    CHECK(failure(folder.path()).file() == folder.path("broken.raw"));
    CHECK(mentions(failure(folder.path()).why(), "cannot be opened"));
}

TEST_CASE("directory_of refuses files of different fields", "[data][directory]") {
    support::temp_folder const folder;
    folder.write("a", "aa");
    folder.write("b", "bb");

    auto const error = support::thrown<cuota::usage_error>([&] {
        (void)directory_of(folder.path(), "", [](std::string const& path) {
            std::size_t const extent = path.ends_with('a') ? 1 : 2;
            return cuota::raw_dataset{path, {.fields = {{"x", cuota::element_type::u8, {extent}}}}};
        });
    });
    CHECK(mentions(error.what(), folder.path("b") + " has x u8[2]; " + folder.path("a")));
}

TEST_CASE("directory_of limits the number of open files, and opens files again when they are read",
          "[data][directory]") {
    support::temp_folder const folder;
    std::string whole;
    for (char c = 'a'; c <= 'z'; ++c) {
        folder.write(std::string(1, c), std::string(3, c));
        whole += std::string(3, c);
    }
    struct counted {
        int opened = 0;
        int open = 0;
        int most = 0;
    };
    auto const seen = std::make_shared<counted>();
    auto const open = [seen](std::string const& path) {
        ++seen->opened;
        seen->most = std::max(seen->most, ++seen->open);
        std::shared_ptr<void> const end{nullptr, [seen](void*) { --seen->open; }};
        return cuota::callable_dataset{
            path,
            3,
            {{"letter"}},
            [end, from = letters(path)](std::span<std::uint64_t const> samples,
                                        std::span<std::span<std::byte> const> out) {
                from.gather(samples, out);
            }};
    };
    auto const all = directory_of(folder.path(), "", open, 4);
    CHECK(seen->opened == 26);
    CHECK(seen->open == 4);
    CHECK(all.size() == 78);
    CHECK(gathered(all, support::first_samples(78))[0] == whole);
    CHECK(seen->open == 4);
    CHECK(seen->opened == 52);
    (void)gathered(all, {77, 76, 75, 70});  // the last four are open
    CHECK(seen->opened == 52);
    (void)gathered(all, {0, 77, 1});  // closes the least recently read file
    CHECK(seen->opened == 53);
    (void)gathered(all, {77, 70});
    CHECK(seen->opened == 53);
    CHECK(seen->most <= 5);  // a file is opened before another is closed

    CHECK_THROWS_AS(directory_of(folder.path(), "", open, 0), cuota::usage_error);
    int const before = seen->opened;
    auto const few = directory_of(folder.path(), "", open, 26);
    CHECK(gathered(few, support::first_samples(78))[0] == whole);
    CHECK(seen->opened == before + 26);  // all stay open
}

TEST_CASE("directory_of detects that a file was replaced before it is opened again", "[data][directory]") {
    support::temp_folder const folder;
    for (char const* name : {"a", "b", "c"}) folder.write(name, "xyz");
    auto const all = directory_of(folder.path(), "", letters, 1);
    folder.write("a", "xy");
    auto const error = support::thrown<cuota::data_error>([&] { (void)gathered(all, {0}); });
    CHECK(mentions(error.what(), folder.path("a")));
    CHECK(mentions(error.why(), "the file has changed since it was first opened: 2 samples"));
    CHECK(gathered(all, {3})[0] == "x");
    std::filesystem::remove(folder.path("c"));
    (void)gathered(all, {4});
    CHECK(mentions(support::thrown<cuota::data_error>([&] { (void)gathered(all, {8}); }).why(),
                   "No such file"));
}

namespace {

class fewer_descriptors {
public:
    explicit fewer_descriptors(rlim_t most) {
        REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
        rlimit now = before_;
        now.rlim_cur = most;
        REQUIRE(::setrlimit(RLIMIT_NOFILE, &now) == 0);
    }
    fewer_descriptors(fewer_descriptors const&) = delete;
    fewer_descriptors& operator=(fewer_descriptors const&) = delete;
    ~fewer_descriptors() { (void)::setrlimit(RLIMIT_NOFILE, &before_); }

private:
    rlimit before_{};
};

}  // namespace

TEST_CASE("directory_of fails if it may keep more files open than the process", "[data][directory]") {
    if (support::under_address_sanitizer)
        CUOTA_SKIP(
            "UndefinedBehaviorSanitizer, which is in the same build, needs descriptors to check types");
    support::temp_folder const folder;
    for (int i = 0; i != 150; ++i) folder.write("shard-" + std::to_string(1000 + i), "ab");
    fewer_descriptors const limit{100};
    CHECK_THROWS_AS(directory_of(folder.path(), "", letters, cuota::unlimited), cuota::data_error);
}

TEST_CASE("several workers can read more files of directory_of than the process may have descriptors",
          "[data][directory]") {
    support::temp_folder const folder;
    constexpr std::size_t files = 300;
    std::string whole;
    for (std::size_t i = 0; i != files; ++i) {
        std::string const two{static_cast<char>(i % 251), static_cast<char>(i / 251)};
        folder.write("shard-" + std::to_string(1000 + i), two);
        whole += two;
    }
    fewer_descriptors const limit{100};
    CHECK(cuota::detail::descriptors_to_use() == 51);
    auto const all = directory_of(folder.path(), "", letters);
    CHECK(all.size() == 2 * files);
    std::vector<std::thread> workers;
    std::atomic<int> wrong = 0;
    for (std::uint64_t seed = 0; seed != 4; ++seed)
        workers.emplace_back([&, seed] {
            cuota::keyed_permutation const order{2 * files, seed};
            std::vector<std::uint64_t> samples(100);
            std::vector<std::byte> read(100);
            for (std::uint64_t at = 0; at != 2 * files; at += 100) {
                for (std::uint64_t i = 0; i != 100; ++i) samples[i] = order(at + i);
                std::span<std::byte> const out[] = {read};
                all.gather(samples, out);
                for (std::size_t i = 0; i != 100; ++i)
                    wrong += static_cast<char>(read[i]) != whole[static_cast<std::size_t>(samples[i])];
            }
        });
    for (std::thread& each : workers) each.join();
    CHECK(wrong == 0);
}
