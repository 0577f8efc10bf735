// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/detail/export/svg_text.hpp>

#include <string>
#include <string_view>
#include <vector>

#include "support/catch.hpp"

namespace {

using cuota::detail::drawable;
using cuota::detail::fitted;
using cuota::detail::fitted_head;
using cuota::detail::svg_box;
using cuota::detail::svg_number;
using cuota::detail::text_width;
using cuota::detail::xml_text;

}  // namespace

TEST_CASE("any text in a picture is escaped", "[report][svg_text]") {
    CHECK(xml_text("weights") == "weights");
    CHECK(xml_text("<a b=\"c\" d='e'>&amp;") == "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;amp;");
    CHECK(xml_text("]]>") == "]]&gt;");
    CHECK(xml_text(std::string_view{"a\0b\x01\x1f\n\t\x7f", 8}) == "a?b?????");
    CHECK(xml_text("\xff\xc3(\xed\xa0\x80") == "??"
                                               "(???");
    CHECK(xml_text("\xc2\x80\xc2\x9f\xc2\xa0") == "??\xc2\xa0");  // control characters above ASCII
    CHECK(xml_text("\xef\xbf\xbe\xef\xbf\xbf\xef\xbf\xbd") == "??\xef\xbf\xbd");    // U+FFFE, U+FFFF, U+FFFD
    CHECK(xml_text("\xe2\x80\xae\xe2\x80\x8e\xe2\x81\xa6\xe2\x80\xa8") == "????");  // change the direction
    CHECK(xml_text("\xe2\x80\xa7\xe2\x80\xaf\xe2\x81\xa5") == "\xe2\x80\xa7\xe2\x80\xaf\xe2\x81\xa5");
    CHECK(xml_text("\xe9\x87\x8d \xf0\x9f\x92\xbe") == "\xe9\x87\x8d \xf0\x9f\x92\xbe");
}

TEST_CASE("numbers in a picture have at most one decimal, after a point", "[report][svg_text]") {
    CHECK(svg_number(0) == "0");
    CHECK(svg_number(12.34) == "12.3");
    CHECK(svg_number(12.36) == "12.4");
    CHECK(svg_number(12.97) == "13");
    CHECK(svg_number(-0.04) == "0");
    CHECK(svg_number(-3.26) == "-3.3");
    CHECK(svg_number(-0.5) == "-0.5");
}

TEST_CASE("text that is too wide loses its middle or its end", "[report][svg_text]") {
    CHECK(fitted("weights", 100, 12) == "weights");
    std::string const name = "model.layer.12.attention.query.weight";
    for (double width = 12; width < 400; width += 7) {
        std::string const cut = fitted(name, width, 12);
        std::string const head = fitted_head(name, width, 12);
        CHECK(text_width(cut, 12) <= width);
        CHECK(text_width(head, 12) <= width);
        CHECK((cut == name) == (text_width(name, 12) <= width));
        CHECK((head == name) == (cut == name));
    }
    CHECK(fitted(name, 100, 12).starts_with("model."));
    CHECK(fitted(name, 100, 12).ends_with("ight"));
    CHECK(fitted_head(name, 100, 12).starts_with("model.layer"));
    CHECK(fitted_head(name, 100, 12).ends_with("\xe2\x80\xa6"));
    CHECK(text_width(fitted(name, 100, 12), 12) > 80);
    std::string const wide = "\xe9\x87\x8d\xe9\x87\x8d\xe9\x87\x8d\xe9\x87\x8d\xe9\x87\x8d\xe9\x87\x8d";
    for (double width = 12; width < 80; width += 1)
        CHECK(drawable(fitted(wide, width, 12)) == fitted(wide, width, 12));  // does not split a character
    CHECK(fitted("a\x01", 100, 12) == "a?");
}

TEST_CASE("labels are placed at the first free position within the picture", "[report][svg_text]") {
    cuota::detail::label_layout board{{0, 0, 100, 50}};
    std::vector<svg_box> const corner{{0, 0, 40, 10}};
    CHECK(board.place(corner).has_value());
    CHECK(!board.place(corner).has_value());
    std::vector<svg_box> const wishes{{30, 5, 40, 10}, {70, 20, 40, 10}, {40, 0, 40, 10}, {0, 30, 9, 9}};
    auto const second = board.place(wishes);  // adjacent to the first one does not overlap it
    REQUIRE(second.has_value());
    CHECK(second->x == 40);
    CHECK(second->y == 0);
    CHECK(board.place(wishes)->y == 30);
    CHECK(!board.place(wishes).has_value());
    CHECK(!board.place({}).has_value());
}
