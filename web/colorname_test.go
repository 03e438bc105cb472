package web

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

		"": {"", "Galaxy", "Rainbow", "Regenbogen", "PLA", "Dark", "Bored", "Credo", "Ümläut", "黒", "\xff\xfe",
			strings.Repeat("x", 1000)},
	} {
		for _, name := range names {
			if got := guessColor(name); got != want {
				t.Errorf("%q is %q, want %q", name, got, want)
			}
		}
	}
	if mixed("#000000", 0.4) != "#666666" || mixed("#FFFFFF", -0.4) != "#999999" || mixed("#FF0000", 0.4) != "#FF6666" {
		t.Errorf("mixed colors are %s, %s, %s", mixed("#000000", 0.4), mixed("#FFFFFF", -0.4), mixed("#FF0000", 0.4))
	}
}

// Each word of the tables has one meaning, and each family is a base color.
func TestColorWords(t *testing.T) {
	t.Parallel()
	known := map[string]string{}
	for _, table := range []string{baseColors, shades, lightWords, darkWords} {
		for _, word := range strings.Fields(table) {
			families, isFamilies := strings.CutSuffix(word, ":")
			switch {
			case word[0] == '#':
				if !hexColor.MatchString(word) {
					t.Errorf("%s is no code", word)
				}
			case isFamilies:
				for family := range strings.SplitSeq(families, ",") {
					if w := colorWords[family]; family != "" && (w.code == "" || w.shade) {
						t.Errorf("%s is no base color", family)
					}
				}
			case known[word] != "":
				t.Errorf("%s is there twice", word)
			default:
				known[word] = word
				if got := guessColor(word); got == "" && colorWords[word].lighter == 0 {
					t.Errorf("%s has no color", word)
				}
			}
		}
	}
}
