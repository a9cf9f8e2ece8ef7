// font.c: the letters of a picture, as strokes of a pen on a grid of 5 by 10 points, so that they have any size. A
// point is two digits, x (0 to 4) and y: 0 is where capitals begin, 2 small letters, 7 the baseline, 9 the depth of a
// g. Strokes are separated by spaces; one of a single point is a dot.
#include "train/cli/canvas.h"

#include <stddef.h>

enum { BASELINE = 7, APART = 2, SPACE = 2, FIRST = ' ', LAST = '~' };

static const char missing[] = "0040470700";

static const char *const glyphs[LAST - FIRST + 1] = {
    ['!' - FIRST] = "0005 07",
    ['"' - FIRST] = "0002 2022",
    ['#' - FIRST] = "1017 3037 0242 0545",
    ['$' - FIRST] = "413010010213334446371706 2027",
    ['%' - FIRST] = "0010110100 3646473736 4007",
    ['&' - FIRST] = "470201102031320506172745",
    ['\'' - FIRST] = "0002",
    ['(' - FIRST] = "20111627",
    [')' - FIRST] = "00111607",
    ['*' - FIRST] = "2125 0244 0442",
    ['+' - FIRST] = "2226 0444",
    [',' - FIRST] = "161708",
    ['-' - FIRST] = "0444",
    ['.' - FIRST] = "07",
    ['/' - FIRST] = "4007",
    ['0' - FIRST] = "103041463717060110",
    ['1' - FIRST] = "011017 0727",
    ['2' - FIRST] = "01103041420747",
    ['3' - FIRST] = "01103041423313 334446371706",
    ['4' - FIRST] = "37300545",
    ['5' - FIRST] = "400003334446371706",
    ['6' - FIRST] = "413010010617374644331304",
    ['7' - FIRST] = "004017",
    ['8' - FIRST] = "103041423313020110 1304061737464433",
    ['9' - FIRST] = "061737464130100103143443",
    [':' - FIRST] = "03 07",
    [';' - FIRST] = "13 161708",
    ['<' - FIRST] = "410447",
    ['=' - FIRST] = "0343 0545",
    ['>' - FIRST] = "014407",
    ['?' - FIRST] = "01103041422425 27",
    ['@' - FIRST] = "4637170601103041453633 332314152636",
    ['A' - FIRST] = "0702204247 0444",
    ['B' - FIRST] = "07003041423303 3344463707",
    ['C' - FIRST] = "4130100106173746",
    ['D' - FIRST] = "00304146370700",
    ['E' - FIRST] = "40000747 0333",
    ['F' - FIRST] = "400007 0333",
    ['G' - FIRST] = "41301001061737464424",
    ['H' - FIRST] = "0007 4047 0343",
    ['I' - FIRST] = "0020 1017 0727",
    ['J' - FIRST] = "404637170605",
    ['K' - FIRST] = "0007 4004 1347",
    ['L' - FIRST] = "000747",
    ['M' - FIRST] = "0700234047",
    ['N' - FIRST] = "07004740",
    ['O' - FIRST] = "103041463717060110",
    ['P' - FIRST] = "07003041433404",
    ['Q' - FIRST] = "103041463717060110 2547",
    ['R' - FIRST] = "07003041433404 2447",
    ['S' - FIRST] = "413010010213334446371706",
    ['T' - FIRST] = "0040 2027",
    ['U' - FIRST] = "000617374640",
    ['V' - FIRST] = "002740",
    ['W' - FIRST] = "0017233740",
    ['X' - FIRST] = "0047 4007",
    ['Y' - FIRST] = "002340 2327",
    ['Z' - FIRST] = "00400747",
    ['[' - FIRST] = "20000727",
    ['\\' - FIRST] = "0047",
    [']' - FIRST] = "00202707",
    ['^' - FIRST] = "022042",
    ['_' - FIRST] = "0848",
    ['`' - FIRST] = "0011",
    ['a' - FIRST] = "12324347 44140506173746",
    ['b' - FIRST] = "0007 0312324346371706",
    ['c' - FIRST] = "4332120306173746",
    ['d' - FIRST] = "4047 4332120306173746",
    ['e' - FIRST] = "04444332120306173746",
    ['f' - FIRST] = "30201117 0232",
    ['g' - FIRST] = "4248391908 4332120306173746",
    ['h' - FIRST] = "0007 0312324347",
    ['i' - FIRST] = "021217 0727 10",
    ['j' - FIRST] = "1222281909 20",
    ['k' - FIRST] = "0007 3205 1437",
    ['l' - FIRST] = "001017 0727",
    ['m' - FIRST] = "0207 03122327 23324347",
    ['n' - FIRST] = "0207 0312324347",
    ['o' - FIRST] = "123243463717060312",
    ['p' - FIRST] = "0209 0312324346371706",
    ['q' - FIRST] = "4249 4332120306173746",
    ['r' - FIRST] = "0207 03123243",
    ['s' - FIRST] = "4332120314344546371706",
    ['t' - FIRST] = "10162737 0232",
    ['u' - FIRST] = "0206173746 4247",
    ['v' - FIRST] = "022742",
    ['w' - FIRST] = "0217243742",
    ['x' - FIRST] = "0247 4207",
    ['y' - FIRST] = "0206173746 4248391908",
    ['z' - FIRST] = "02420747",
    ['{' - FIRST] = "20111304151627",
    ['|' - FIRST] = "0008",
    ['}' - FIRST] = "00111324151607",
    ['~' - FIRST] = "04133544",
};

static const char *find_glyph(unsigned char c) {
    if (c == ' ') return "";
    return c > FIRST && c <= LAST ? glyphs[c - FIRST] : missing;
}

// Further bytes of a UTF-8 character are no characters.
static bool is_character(unsigned char c) { return (c & 0xC0) != 0x80; }

static int glyph_width(const char *strokes) {
    int width = *strokes ? 0 : SPACE;
    for (const char *s = strokes; *s; s += *s == ' ' ? 1 : 2)
        if (*s != ' ' && *s - '0' > width) width = *s - '0';
    return width;
}

static void lay_glyph(canvas *c, double left, double top, double unit, const char *strokes) {
    double pen = unit > 1.1 ? unit : 1.1;
    for (const char *s = strokes; *s;) {
        double x = left + unit * (s[0] - '0'), y = top + unit * (s[1] - '0');
        canvas_lay_segment(c, x, y, x, y, pen);
        for (s += 2; *s && *s != ' '; s += 2) {
            double next_x = left + unit * (s[0] - '0'), next_y = top + unit * (s[1] - '0');
            canvas_lay_segment(c, x, y, next_x, next_y, pen);
            x = next_x, y = next_y;
        }
        s += *s == ' ';
    }
}

void canvas_lay_text(canvas *c, double x, double baseline, double unit, const char *text) {
    for (; *text; text++) {
        if (!is_character((unsigned char)*text)) continue;
        const char *glyph = find_glyph((unsigned char)*text);
        lay_glyph(c, x, baseline - BASELINE * unit, unit, glyph);
        x += unit * (glyph_width(glyph) + APART);
    }
}

double canvas_text_width(double unit, const char *text) {
    int width = 0;
    for (const char *t = text; *t; t++)
        if (is_character((unsigned char)*t)) width += glyph_width(find_glyph((unsigned char)*t)) + APART;
    return width > 0 ? (width - APART) * unit : 0;
}
