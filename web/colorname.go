package web

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// A color without a code gets one from its name, for pictures only. The tables have the words of the ten languages
// that imports know: English, German, French, Spanish, Italian, Dutch, Portuguese, Polish, Czech and Swedish. Words
// are in lower case and without accents, except those that would be another word without them.

// colorWord is what a word of a name means.
type colorWord struct {
	code     string // "#RRGGBB", or "" for a word that makes a color lighter or darker
	families string // the base colors of which this is a shade; "" for a base color
	shade    bool   // whether a base color in the name matters more, unless it is one of the families
	lighter  float64
}

// baseColors are the names of colors, with their codes.
const baseColors = `
#1B1B1B black schwarz schwarze schwarzer schwarzes noir noire negro negra nero nera zwart zwarte preto preta czarny
	czarna czarne cerny cerna cerne svart svarta
#F4F4F2 white weiss weisse weisser weisses blanc blanche blanco blanca bianco bianca wit witte branco branca bialy
	biala biale bily bila bile vit vita vitt
#8A8D90 grey gray grau graue graues gris grise grigio grigia grijs grijze cinza cinzento szary szara szare sedy šedá
	sede grå gråa grått
#CF2B2B red rot rote roter rotes rouge rojo roja rosso rossa rood rode vermelho vermelha czerwony czerwona czerwone
	cerveny cervena cervene röd röda rött rød
#1F62C4 blue blau blaue blauer bleu bleue azul blu blauw blauwe niebieski niebieska niebieskie modry modra modre blå
	blåa blått
#2D9A45 green grun grune gruner gruen vert verte verde groen groene zielony zielona zielone zeleny zelena zelene
	grön gröna grönt grønn gron
#F6D21B yellow gelb gelbe gelber jaune amarillo amarilla giallo gialla geel gele amarelo amarela zolty zolta zolte
	zluty zluta zlute gul gula gult
#F47B20 orange oranje naranja arancione arancio laranja pomaranczowy pomaranczowa pomaranczowe oranzovy oranzova
	oranzove
#7A4A2C brown braun braune brauner brun brune marron marrone bruin bruine marrom castanho brazowy brazowa brazowe
	hnedy hneda hnede bruna brunt
#7C3FA3 purple violet violett lila lilla violette morado morada viola paars paarse roxo roxa fioletowy fioletowa
	fioletowe fialovy fialova fialove purpur purpura pourpre porpora
#F291B4 pink rosa rose roze rosado rosada rozowy rozowa rozowe ruzovy ruzova ruzove
#B9BDC1 silver silber argent argente plata plateado argento zilver prata prateado srebrny srebrna srebrne stribrny
	stribrna stribrne
#D3A52B gold golden gouden goud or dore doree oro dorado dorada ouro dourado zloty zlota zlote zlaty zlata zlate
	guld
#E2D2B1 beige bezowy bezova bezowa bezovy
#2FBEBE turquoise turkis tuerkis turquesa turchese turkoois turkusowy turkusowa tyrkysovy tyrkysova turkos cyan
	cyaan
#C3228F magenta
`

// shades are names of shades: the base colors of which they are shades, if they have any, and the names.
const shades = `
#6B7034 green: olive oliv oliva olijf oliwkowy oliwkowa olivovy olivova
#A5D233 green: lime limette lima limetka limonkowy
#98D8B8 green: mint minze menthe menta munt mietowy mietowa mintgron
#3FA37C green: jade jadeit nefryt
#22552F green: forest wald foret bosque foresta bos floresta lesny lesni skog army militar tannen racing
#1F8A5B green: emerald smaragd emeraude esmeralda smeraldo szmaragd
#0F7C80 green,blue: teal petrol petroleum petrole
#7EC3EE blue: sky himmel ciel cielo hemel ceu nebesky nebeska niebo azure azur azzurro celeste ice eis
#1B2A52 blue: navy marine marino marinha granatowy granatowa namornicka kungsblå
#1F45B8 blue: royal royale konig konigs kobalt cobalt cobalto sapphire saphir ultramarin ultramarine
#1C2340 blue: midnight mitternacht mitternachts minuit medianoche mezzanotte
#A6192E red: cherry kirsch cerise cereza ciliegia kers cereja wisniowy visnovy ruby rubin rubis crimson karmin
#5E1224 red,purple: bordeaux burgundy wine wein vin vino wijn bordo burgund burgunder maroon
#FF6F5B red,pink,orange: coral koralle korallen corail corallo koraal
#B4553A red,brown,orange: terracotta terrakotta brick ziegel brique mattone
#A4491F red,brown,orange: rust rost rouille
#FA8F7C pink,red,orange: salmon lachs saumon salmone zalm
#D1208A pink,purple: fuchsia fuchsie hotpink
#B7A3DB purple: lavender lavendel lavande lavanda lawenda levandule lilac flieder
#5B2A50 purple: plum pflaume prune ciruela prugna pruim aubergine
#F6E54A yellow: lemon zitrone zitronen citron limon limone citroen cytrynowy
#C99A1E yellow: mustard senf moutarde mostaza
#D8C49A beige,brown,yellow: sand sable arena sabbia zand areia piaskowy piskova desert
#F3EBD3 white,beige: ivory elfenbein ivoire marfil avorio ivoor marfim cream creme crema kremowy kremowa kremova
	bone knochen eierschale
#36393D black,grey: charcoal anthrazit anthracite antracita antracite antraciet antracyt antracit graphite graphit
	grafito grafite grafit obsidian
#4E2E1E brown: chocolate schokolade schoko chocolat cioccolato chocolade czekolada cokolada choklad coffee kaffee
	cafe mocha
#B5773C brown: caramel karamell caramelo caramello karamel
#B4693C brown,red,orange: copper kupfer cuivre cobre rame koper miedz medeny měď koppar
#8C6A3A brown,gold: bronze bronzo bronce brons braz bronz messing brass laiton
#C09A66 brown: wood holz bois legno madera hout madeira drewno drevo bamboo bambus
#E8BFA0 beige,pink: skin haut peau piel pelle huid
#FFC29B pink,orange: peach pfirsich peche melocoton perzik apricot aprikose
#A5A6A2 grey: stone stein pierre concrete beton cement zement ash asche
#787B80 grey,silver: titan titanium titane titanio gunmetal steel stahl acier
#E4E1DA white: marble marmor marbre marmol marmo marmer
#DFE6EA : transparent transparente trasparente transparant durchsichtig przezroczysty przezroczysta pruhledny
	pruhledna genomskinlig clear klar translucent transluzent translucide traslucido translucido crystal kristall
#E8DFC8 : natural natur naturel naturelle naturale naturalny prirodni naturell
`

// Words that make a color lighter or darker.
const (
	lightWords = `light hell helles heller clair claire claro clara chiaro chiara licht lichte jasny jasna jasne jasno
		svetly svetla svetle svetlo ljus ljusa pale blass pastel pastell baby`
	darkWords = `dark deep dunkel dunkles dunkler tief fonce foncee sombre oscuro oscura scuro scura escuro escura
		donker donkere ciemny ciemna ciemne ciemno tmavy tmava tmave tmavo mork morka night nacht nuit noche
		notte noite noc natt`
)

const (
	lighten = 0.4
	darken  = -0.4
)

// colorWords maps each word to its meaning, and colorEnds has the base colors that can be the end of a compound, such
// as himmelblau.
var colorWords, colorEnds = readColorWords()

func readColorWords() (words map[string]colorWord, ends []string) {
	words = map[string]colorWord{}
	for i, table := range []string{baseColors, shades} {
		var w colorWord
		for _, word := range strings.Fields(table) {
			families, isFamilies := strings.CutSuffix(word, ":")
			switch {
			case word[0] == '#':
				w = colorWord{code: word, shade: i > 0}
			case isFamilies:
				w.families = families
			default:
				words[word] = w
				if !w.shade && (len(word) > 3 || strings.Contains(" rot wit vit gul blå röd grå ", " "+word+" ")) {
					ends = append(ends, word)
				}
			}
		}
	}
	for _, word := range strings.Fields(lightWords) {
		words[word] = colorWord{lighter: lighten}
	}
	for _, word := range strings.Fields(darkWords) {
		words[word] = colorWord{lighter: darken}
	}
	return words, ends
}

var unaccent = strings.NewReplacer(
	"ä", "a", "á", "a", "à", "a", "â", "a", "ã", "a", "å", "a", "ą", "a", "č", "c", "ć", "c", "ç", "c", "ď", "d",
	"é", "e", "è", "e", "ê", "e", "ë", "e", "ě", "e", "ę", "e", "í", "i", "ì", "i", "î", "i", "ï", "i", "ł", "l",
	"ň", "n", "ń", "n", "ñ", "n", "ö", "o", "ó", "o", "ò", "o", "ô", "o", "õ", "o", "ø", "o", "ř", "r", "š", "s",
	"ś", "s", "ß", "ss", "ť", "t", "ü", "u", "ú", "u", "ù", "u", "û", "u", "ů", "u", "ý", "y", "ž", "z", "ź", "z",
	"ż", "z",
)

// meanings returns what the parts of a word mean: a word of the tables, or a compound such as dunkelblau.
func meanings(word string) []colorWord {
	for _, form := range []string{word, unaccent.Replace(word)} {
		if w, ok := colorWords[form]; ok {
			return []colorWord{w}
		}
		for _, end := range colorEnds {
			rest, ok := strings.CutSuffix(form, end)
			if !ok || len(rest) < 3 {
				continue
			}
			first := colorWords[rest] // the zero value if it is no word of the tables
			if first.code == "" && first.lighter == 0 {
				first = colorWords[unaccent.Replace(rest)]
			}
			return []colorWord{first, colorWords[end]}
		}
	}
	return nil
}

// guessColor returns a code for the name of a color, such as "Galaxy Black", or "" if the name has no known word. The
// last base color in the name counts, or a shade of it: "olive green" is olive, and "jade white" is white.
func guessColor(name string) string {
	if len(name) > 100 {
		name = name[:100]
	}
	var base, shade colorWord
	var all []colorWord
	lighter := 0.0
	for _, word := range nameWords(name) {
		all = append(all, meanings(word)...)
	}
	for _, w := range all {
		switch {
		case w.lighter != 0:
			lighter = w.lighter
		case w.code != "" && !w.shade:
			base = w
		}
	}
	for _, w := range all {
		if w.shade && (base.code == "" || w.isOf(base)) {
			shade = w
		}
	}
	code := base.code
	if shade.code != "" {
		code = shade.code
	}
	if code == "" || lighter == 0 {
		return code
	}
	return mixed(code, lighter)
}

// isOf reports whether the word is a shade of the base color.
func (w colorWord) isOf(base colorWord) bool {
	for family := range strings.SplitSeq(w.families, ",") {
		if family != "" && colorWords[family].code == base.code {
			return true
		}
	}
	return false
}

// nameWords returns the words of a name in lower case. A capital letter after a small one begins a word.
func nameWords(name string) []string {
	var b strings.Builder
	small := false
	for _, r := range name {
		if small && unicode.IsUpper(r) {
			b.WriteByte(' ')
		}
		if small = unicode.IsLower(r); !unicode.IsLetter(r) {
			r = ' '
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return strings.Fields(b.String())
}

// mixed returns a color mixed with white, or with black if the share is negative.
func mixed(code string, share float64) string {
	n, err := strconv.ParseUint(code[1:], 16, 32)
	if err != nil {
		return code
	}
	to := 255.0
	if share < 0 {
		to, share = 0, -share
	}
	part := func(shift uint) int {
		c := float64(n >> shift & 0xFF)
		return int(c + (to-c)*share + 0.5)
	}
	return fmt.Sprintf("#%02X%02X%02X", part(16), part(8), part(0))
}
