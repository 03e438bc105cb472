package colors

import (
	"strings"
	"testing"
)

// The names that vendors and people use for colors have the color that they mean.
func TestGuessColor(t *testing.T) {
	t.Parallel()
	code := func(word string) string { return colorWords[word].code }
	for want, names := range map[string][]string{
		code("black"): {"Black", "Schwarz", "SCHWARZ", "Galaxy Black", "Jet Black", "GalaxyBlack", "Noir", "negro", "Nero",
			"Zwart", "Preto", "Czarny", "Černá", "cerny", "Svart", "PLA Matt-Schwarz", "Black Marble",
			"Blue Black"},
		code("white"): {"Jade White", "Weiß", "weiss", "Signalweiß", "Blanc", "Blanca", "Bianco", "Wit", "Branco", "Biały",
			"Bílá", "Vit", "Cotton White", "reinweiss", "Snow/White"},
		code("grey"): {"Gray", "Grau", "gris", "Grijs", "Cinza", "Szary", "Šedá", "Grå", "Space Gray", "Mausgrau"},
		code("red"): {"Rot", "Feuerrot", "Signal Red", "Rojo seda", "Rosso", "Rood", "Vermelho", "Czerwony", "Červená",
			"Röd", "rød", "Transparent Red", "Rot transparent", "Lava Red 2"},
		code("blue"):        {"Blau", "Bleu", "Azul", "Blu", "Blauw", "Niebieski", "Modrá", "Blå", "Klar Blau", "Red-Blue"},
		code("green"):       {"Grün", "gruen", "Vert", "Verde", "Groen", "Zielony", "Zelená", "Grön", "Neon Green"},
		code("yellow"):      {"Gelb", "Jaune", "Amarillo", "Giallo", "Geel", "Amarelo", "Żółty", "Žlutá", "Schwefelgelb"},
		code("orange"):      {"Prusa Orange", "Naranja", "Arancione", "Oranje", "Laranja", "Pomarańczowy", "Oranžová"},
		code("brown"):       {"Braun", "Marrón", "Marrone", "Bruin", "Castanho", "Brązowy", "Hnědá", "Brun"},
		code("purple"):      {"Lila", "Violett", "Paars", "Roxo", "Fioletowy", "Fialová"},
		code("pink"):        {"Rosa", "Rose", "Roze", "Różowy", "Růžová"},
		code("gold"):        {"Silk Gold", "Oro", "Doré", "Goud", "Złoty", "Zlatá", "Guld", "Rose Gold"},
		code("silver"):      {"Silber", "Argent", "Plata", "Zilver", "Srebrny", "Stříbrná", "Quick Silver"},
		code("turquoise"):   {"Türkis", "Turquesa", "Turkoois", "Turkusowy", "Tyrkysová", "Turkos", "Cyan"},
		code("olive"):       {"Olive", "Olive Green", "Olivgrün", "Verde oliva", "Oliva verde"},
		code("sky"):         {"Sky Blue", "Himmelblau", "Bleu ciel", "azul cielo", "Himmelblå"},
		code("charcoal"):    {"Charcoal", "Charcoal Black", "Anthrazit", "Anthrazitgrau", "gris anthracite"},
		code("ivory"):       {"Ivory White", "Elfenbein", "cremeweiß", "Crème"},
		code("bordeaux"):    {"Bordeaux", "Weinrot", "Vin rouge", "Bordeauxrot"},
		code("transparent"): {"Transparent", "Clear", "przezroczysty", "Klar"},
		code("natural"):     {"Natural", "Natur", "Naturel"},
		code("copper"):      {"Kupfer", "Copper", "Měď"},

		mixed(code("blue"), lighten): {"Light Blue", "Hellblau", "bleu clair", "azul claro", "Lichtblauw", "Ljusblå",
			"Světlo modrá"},
		mixed(code("blue"), darken): {"Dark Blue", "Dunkelblau", "Bleu nuit", "bleu foncé", "Azul oscuro", "Donkerblauw",
			"Tmavomodrá", "Mörkblå", "blu notte", "Nachtblau"},
		mixed(code("black"), darken):  {"Tiefschwarz", "Deep Black"},
		mixed(code("green"), darken):  {"Ciemnozielony", "Dark Green", "Verde scuro"},
		mixed(code("grey"), lighten):  {"Light Grey", "hellgrau", "Gris clair"},
		mixed(code("red"), darken):    {"Deep Red", "Dunkelrot", "Donkerrood"},
		mixed(code("mint"), lighten):  {"Pastel Mint", "Pastell-Minze"},
		mixed(code("olive"), darken):  {"Dark Olive", "Dunkles Olivgrün"},
		mixed(code("yellow"), darken): {"Dark Yellow"},

		code("紫"):                  {"紫色", "パープル", "葡萄紫"},
		code("ピンク"):                {"粉红色", "ピンク", "桃色"},
		mixed(code("灰"), lighten):  {"浅灰色", "ライトグレー", "淡灰"},
		mixed(code("ブルー"), darken): {"深蓝", "深蓝色", "ダークブルー"},
		code("ブラック"):               {"哑光黑", "黒", "マットブラック", "黑色"},

		"": {"", "Galaxy", "Rainbow", "Regenbogen", "PLA", "Dark", "Bored", "Credo", "Ümläut", "色", "\xff\xfe",
			strings.Repeat("x", 1000)},
	} {
		for _, name := range names {
			if got := Guess(name); got != want {
				t.Errorf("%q is %q, want %q", name, got, want)
			}
		}
	}
	if mixed("#000000", 0.4) != "#666666" || mixed("#FFFFFF", -0.4) != "#999999" || mixed("#FF0000", 0.4) != "#FF6666" {
		t.Errorf("mixed colors are %s, %s, %s", mixed("#000000", 0.4), mixed("#FFFFFF", -0.4), mixed("#FF0000", 0.4))
	}
}

// Each word of the table stands there once and gives a color, and each family is a base color.
func TestWordsOfColors(t *testing.T) {
	t.Parallel()
	words := map[string]bool{}
	for line := range strings.Lines(table) {
		if line == "[names]\n" {
			break
		}
		for word := range strings.FieldsSeq(line) {
			families, isFamilies := strings.CutSuffix(word, ":")
			switch {
			case line[0] == '[' || strings.HasPrefix(line, "# "):
			case isFamilies:
				for family := range strings.SplitSeq(families, ",") {
					if w := colorWords[family]; family != "" && (w.code == "" || w.shade) {
						t.Errorf("%s is no base color", family)
					}
				}
			case word[0] == '#':
				if _, ok := parse(word); !ok {
					t.Errorf("%s is no code", word)
				}
			case words[word]:
				t.Errorf("%s is there twice", word)
			default:
				words[word] = true
				if got := Guess(word); got == "" && colorWords[word].lighter == 0 {
					t.Errorf("%s has no color", word)
				}
			}
		}
	}
	if len(words) < 500 || len(named) < 60 {
		t.Errorf("%d words, %d codes with names", len(words), len(named))
	}
}

// Codes of makers, slicers and lists have the name that a person would give them.
func TestName(t *testing.T) {
	t.Parallel()
	for name, codes := range map[string]string{
		"Black": "#000000 #1A1A1A #161616 #232527", "White": "#FFFFFF #F4F4F2 #FFFFFFFF #FAFAFA",
		"Gray": "#808080 #8E9089 #7D7C7A", "Dark gray": "#545454 #53565A", "Silver": "#C0C0C0 #A6A9AA",
		"Light gray": "#D1D3D5", "Red": "#FF0000 #C12E1F #DD4646 #DE4343", "Dark red": "#8B0000 #9D2235",
		"Orange": "#FF8000 #FF6A13 #F99963", "Yellow": "#FFFF00 #FCE900 #FEC600 #F4EE2A", "Gold": "#E4BD68 #D3A52B",
		"Green": "#00AE42 #00FF00 #008000 #3F8E43", "Dark green": "#006400", "Lime": "#BECF00 #A5D233",
		"Turquoise": "#2FBEBE #00B1B7", "Teal": "#008080 #0F8B8D", "Cyan": "#00FFFF",
		"Light blue": "#A3D8E1 #3EC0FF #56B7E6", "Blue": "#0086D6 #0A2CA5 #0056B8 #0078BF #0000FF",
		"Dark blue": "#000080 #042F56", "Purple": "#5E43B7 #950051 #800080", "Magenta": "#EC008C #FF00FF",
		"Pink": "#F55A74 #E8AFCF #FFC0CB", "Brown": "#9D432C #7A4A2C #6F5034", "Beige": "#F7E6DE #E8DBB7 #F5F5DC",
		"": "red # #12 #GGGGGG #1234567",
	} {
		for code := range strings.FieldsSeq(codes) {
			if got := Name(code); got != name {
				t.Errorf("%s is %q, want %q", code, got, name)
			}
		}
	}
}

// Similar colors are near each other, also dark ones, and different ones are not.
func TestDistance(t *testing.T) {
	t.Parallel()
	for pair, near := range map[string]bool{"#000000 #1A1A1A": true, "#FFFFFF #F4F4F2": true, "#FF0000 #CF2B2B": true,
		"#FF8000 #F47B20": true, "#1A1A1A80 #1A1A1A": true, "#FF0000 #FF8000": false, "#0000FF #000080": false,
		"#00FF00 #2D9A45": false, "#808080 #C0C0C0": false, "#FFFFFF #000000": false, "#FF0000 red": false} {
		a, b, _ := strings.Cut(pair, " ")
		if d := Distance(a, b); (d <= 0.15) != near || d != Distance(b, a) {
			t.Errorf("%s has the distance %g", pair, d)
		}
	}
}
