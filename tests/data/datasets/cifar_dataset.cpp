// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/datasets/cifar_dataset.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <unistd.h>

#include "support/catch.hpp"
#include "support/heap_watch.hpp"
#include "support/samples.hpp"
#include "support/temp_folder.hpp"
#include "support/thrown.hpp"

namespace {

using cuota::cifar_dataset;
using cuota::cifar_set;
using cuota::element_type;
using support::gathered;
using support::mentions;

constexpr std::size_t image_bytes = 3072;

std::string image(unsigned salt) { return support::pattern(image_bytes, salt); }

/// Returns a CIFAR-10 file: one record per label, with an image of that number.
std::string records(std::vector<unsigned> const& labels) {
    std::string bytes;
    for (unsigned const label : labels) bytes += static_cast<char>(label) + image(label);
    return bytes;
}

/// Returns a CIFAR-100 file: each record has a coarse and a fine label.
std::string records_of_100(std::vector<unsigned> const& labels) {
    std::string bytes;
    for (unsigned const label : labels)
        (bytes += static_cast<char>(label / 5)) += static_cast<char>(label) + image(label);
    return bytes;
}

}  // namespace

TEST_CASE("cifar_dataset reads CIFAR-10: a label, then an image", "[data][cifar_dataset]") {
    support::temp_folder const folder;
    cifar_dataset const from{cifar_set::cifar_10, {folder.write("test_batch.bin", records({7, 0, 9}))}};

    CHECK(from.size() == 3);
    CHECK(from.name() == folder.path("test_batch.bin"));
    REQUIRE(from.fields().size() == 2);
    CHECK(from.fields()[0] == cuota::field{"label", element_type::u8, {}});
    CHECK(from.fields()[1] == cuota::field{"image", element_type::u8, {3, 32, 32}});
    CHECK(gathered(from, {2, 0}) == std::vector<std::string>{"\11\7", image(9) + image(7)});
    CHECK(gathered(from, {0, 1, 2})[1] == image(7) + image(0) + image(9));
}

TEST_CASE("cifar_dataset reads CIFAR-100: a coarse label, a fine one, an image", "[data][cifar_dataset]") {
    support::temp_folder const folder;
    cifar_dataset const from{cifar_set::cifar_100, {folder.write("train.bin", records_of_100({99, 0, 42}))}};

    CHECK(from.size() == 3);
    REQUIRE(from.fields().size() == 3);
    CHECK(from.fields()[0] == cuota::field{"coarse_label"});
    CHECK(from.fields()[1] == cuota::field{"fine_label"});
    CHECK(from.fields()[2] == cuota::field{"image", element_type::u8, {3, 32, 32}});
    CHECK(gathered(from, {0, 2}) == std::vector<std::string>{"\23\10", "\143\52", image(99) + image(42)});
}

TEST_CASE("cifar_dataset reads several files as one dataset", "[data][cifar_dataset]") {
    support::temp_folder const folder;
    std::vector<std::string> paths;
    std::string labels;
    for (unsigned i = 0; i != 5; ++i) {
        paths.push_back(folder.write("data_batch_" + std::to_string(i), records({i, 9 - i})));
        labels += {static_cast<char>(i), static_cast<char>(9 - i)};
    }
    cifar_dataset const train{cifar_set::cifar_10, paths};

    CHECK(train.size() == 10);
    CHECK(train.name() == paths[0] + " and 4 more");
    CHECK(gathered(train, support::first_samples(10))[0] == labels);
    CHECK(gathered(train, {9, 2})[1] == image(5) + image(1));
    std::vector<cuota::file> const files{cuota::file{paths[3]}, cuota::file{paths[1]}};
    CHECK(gathered(cifar_dataset{cifar_set::cifar_10, files}, {0, 3})[0] == "\3\10");
    REQUIRE_THROWS_AS((cifar_dataset{cifar_set::cifar_10, std::vector<std::string>{}}), cuota::usage_error);
}

TEST_CASE("cifar_dataset refuses and names a file whose size is not a whole number of records",
          "[data][cifar_dataset]") {
    support::temp_folder const folder;
    std::string const good = folder.write("good.bin", records({1, 2}));
    std::string const bad = folder.write("bad.bin", records({1, 2}) + 'x');

    auto const error = support::thrown<cuota::data_error>([&] {
        cifar_dataset const from(cifar_set::cifar_10, {good, bad});
    });
    CHECK(error.file() == bad);
    CHECK(error.offset() == 2 * 3073);
    CHECK(error.why() == "the last record has 1 of its 3073 bytes");
    auto const other = support::thrown<cuota::data_error>(  // a file of the other set
        [&] { cifar_dataset const from(cifar_set::cifar_100, {good}); });
    CHECK(other.why() == "the last record has 3072 of its 3074 bytes");
    CHECK(cifar_dataset{cifar_set::cifar_10, {folder.write("none.bin", "")}}.size() == 0);
}

TEST_CASE("cifar_dataset refuses labels that are out of range", "[data][cifar_dataset]") {
    support::temp_folder const folder;
    std::string const good = folder.write("good.bin", records({1, 2}));
    for (unsigned const label : {10U, 128U, 255U}) {
        cifar_dataset const from{cifar_set::cifar_10,
                                 {good, folder.write("bad.bin", records({0, 9, label, 3}))}};
        CHECK(gathered(from, {0, 1, 2, 3, 5})[0] == std::string{"\1\2\0\11\3", 5});
        auto const error = support::thrown<cuota::data_error>([&] { gathered(from, {5, 0, 4}); });
        CHECK(error.file() == folder.path("bad.bin"));
        CHECK(error.offset() == 2 * 3073);
        CHECK(error.why() == "sample 2: label " + std::to_string(label) + " is out of range [0, 10)");
    }

    std::string fine = records_of_100({99, 5});
    fine[3075] = 100;
    auto const no_fine = support::thrown<cuota::data_error>([&] {
        gathered(cifar_dataset{cifar_set::cifar_100, {folder.write("fine.bin", fine)}}, {0, 1});
    });
    CHECK(no_fine.offset() == 3075);
    CHECK(no_fine.why() == "sample 1: fine_label 100 is out of range [0, 100)");
    fine[0] = 20;
    auto const no_coarse = support::thrown<cuota::data_error>([&] {
        gathered(cifar_dataset{cifar_set::cifar_100, {folder.write("coarse.bin", fine)}}, {0});
    });
    CHECK(no_coarse.offset() == 0);
    CHECK(mentions(no_coarse.why(), "coarse_label 20 is out of range [0, 20)"));
}

TEST_CASE("cifar_dataset gathers in any order without allocating", "[data][cifar_dataset]") {
    support::temp_folder const folder;
    std::string const path = folder.write("x.bin", records(std::vector<unsigned>(40, 3)));
    cifar_dataset const from{cifar_set::cifar_10, {path, path, path}};
    for (std::uint64_t const step : {1U, 7U}) {
        std::vector<std::uint64_t> samples;
        for (std::uint64_t i = 0; i != 120; ++i) samples.push_back(i * step % 120);
        std::vector<std::byte> labels(120);
        std::vector<std::byte> images(120 * image_bytes);
        std::vector<std::span<std::byte>> const out{labels, images};

        support::heap_watch const watch;
        from.gather(samples, out);
        std::size_t const allocations = watch.allocations();

        CHECK(allocations == 0);
    }
}

TEST_CASE("cifar_dataset names the file and the sample when a file has shrunk", "[data][cifar_dataset]") {
    support::temp_folder const folder;
    cifar_dataset const from{
        cifar_set::cifar_10,
        {folder.write("a.bin", records({1, 2})), folder.write("b.bin", records({3, 4, 5}))}};
    REQUIRE(::truncate(folder.path("b.bin").c_str(), 3073 + 100) == 0);

    CHECK(gathered(from, {0, 1, 2})[0] == "\1\2\3");
    auto const error = support::thrown<cuota::data_error>([&] { gathered(from, {1, 2, 3}); });
    CHECK(error.file() == folder.path("b.bin"));
    CHECK(error.offset() == 3073 + 100);
    CHECK(mentions(error.why(), "sample 1 cannot be read"));
}
