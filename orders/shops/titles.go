package shops

import (
	_ "embed"
	"strings"

	"spoolwright/inventory/sheets"
)

// titles has the titles of titles.txt.
//
//go:embed titles.txt
var titles string

// wordsOfStates has the words for the state of an order.
//
//go:embed states.txt
var wordsOfStates string

// state is the meaning of a word for the status of an order.
type state int

const (
	unknown   state = iota
	isOpen          // it is to be printed
	isWaiting       // it is not paid yet
	isCancelled
	isShipped
)

// states maps words to states, ignoring case, accents and punctuation.
var states = map[string]state{}

// unpaid has the words that mean "not paid" as the state of the payment; tips has the titles of tips.
var unpaid, tips = map[string]bool{}, map[string]bool{}

func init() {
	sections := map[string]state{"to print": isOpen, "not paid": isWaiting, "canceled": isCancelled, "shipped": isShipped}
	for section, word := range sheets.Words(wordsOfStates) {
		switch key := sheets.Key(word); section {
		case "payment":
			unpaid[key] = true
		case "tip":
			tips[key] = true
		default:
			states[key] = sections[section]
		}
	}
}

// stateOf returns the state for a word. WooCommerce writes wc- before its words.
func stateOf(word string) state {
	key := sheets.Key(word)
	if s := states[key]; s != unknown {
		return s
	}
	return states[strings.TrimPrefix(key, "wc")]
}

// paymentOf returns the state for a word about the payment.
func paymentOf(word string) state {
	switch s := stateOf(word); {
	case s == isCancelled || s == isWaiting:
		return s
	case unpaid[sheets.Key(word)]:
		return isWaiting
	}
	return unknown
}

// isSet reports whether the text of a column such as "shipped" means that it happened: it is a date, or a word other
// than a denial.
func isSet(text string) bool {
	key := sheets.Key(text)
	return key != "" && key != "false" && key != "0" && key != "faux" && key != "falsch" && stateOf(text) != isOpen
}
