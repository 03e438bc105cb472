package shops

import (
	"strings"

	"spoolwright/inventory/imports"
)

// titles are the names that people and shops give to the columns of a list of orders, in the ten languages of package
// imports. The concepts are fields of fileRow, except for selling_price, which is unit_price.
var titles = imports.Titles{
	{Concept: "reference", Names: `order, order number, order no, order nr, order #, order id, order ref,
		order reference, reference, ref, order name, purchase order, po number, receipt id, sales record number, order code,
		bestellung, bestellnummer, bestellnr, bestell nr, auftrag, auftragsnummer, auftragsnr, auftrags nr,
		vorgangsnummer, bestell id,
		commande, numéro de commande, numéro commande, n° commande, n° de commande, référence, référence commande,
		pedido, número de pedido, nº pedido, nº de pedido, referencia, referencia del pedido, id de pedido,
		ordine, numero ordine, numero d'ordine, n. ordine, id ordine, riferimento, riferimento ordine,
		bestelling, bestelnummer, ordernummer, ordernr, referentie, opdrachtnummer,
		número do pedido, nº do pedido, encomenda, número da encomenda, referência,
		zamówienie, numer zamówienia, nr zamówienia, id zamówienia,
		objednávka, číslo objednávky, č. objednávky, id objednávky,
		beställning, beställningsnummer, referens, ordernamn`},
	{Concept: "source", Names: `source, shop, store, channel, sales channel, platform, marketplace, shop name,
		quelle, kanal, verkaufskanal, plattform, marktplatz, onlineshop,
		boutique, canal, plateforme, canal de vente, place de marché,
		tienda, canal de venta, plataforma, negozio, canale, piattaforma, canale di vendita,
		winkel, webwinkel, kanaal, verkoopkanaal, loja, canal de venda,
		sklep, kanał, kanał sprzedaży, platforma, obchod, e-shop, eshop, prodejní kanál, butik, försäljningskanal`},
	{Concept: "customer", Names: `customer, customer name, client, client name, buyer, buyer name, buyer username,
		name, full name, recipient, recipient name, ship name, ship to name, shipping name, billing name, ship to,
		deliver to, purchaser, buyer user id, billing full name,
		kunde, kundenname, käufer, besteller, empfänger, auftraggeber, kundin,
		nom du client, acheteur, destinataire, nom, nom client,
		cliente, nombre, nombre del cliente, comprador, destinatario,
		nome, nome cliente, nome del cliente, acquirente,
		klant, klantnaam, koper, naam, ontvanger, nome do cliente, destinatário,
		klient, nazwa klienta, kupujący, odbiorca, imię i nazwisko, nabywca,
		zákazník, jméno, jméno zákazníka, kupující, příjemce, odběratel,
		kund, kundnamn, köpare, namn, mottagare, beställare`},
	{Concept: "first_name", Names: `first name, given name, firstname, customer first name, billing first name,
		shipping first name, vorname, prénom, nombre de pila, voornaam, primeiro nome, imię, křestní jméno, förnamn`},
	{Concept: "last_name", Names: `last name, surname, family name, lastname, customer last name, billing last name,
		shipping last name, nachname, familienname, nom de famille, apellido, apellidos, cognome, achternaam,
		sobrenome, apelido, nazwisko, příjmení, efternamn`},
	{Concept: "due_date", Names: `due, due date, ship by, ship by date, dispatch by, deliver by, delivery date,
		needed by, deadline, required date, promised date, latest ship date, expected ship date, due on, finish by,
		fällig, fälligkeit, fälligkeitsdatum, fällig am, liefertermin, lieferdatum, versand bis, termin, frist, bis,
		échéance, date d'échéance, date de livraison, à livrer le, date limite, expédier avant,
		fecha de entrega, fecha límite, vencimiento, enviar antes de, entrega,
		scadenza, data di consegna, data consegna, consegna entro, spedire entro,
		leverdatum, uiterlijk, verzenden voor, vervaldatum, uiterste datum,
		data de entrega, prazo, prazo de entrega, vencimento,
		termin realizacji, data dostawy, termin dostawy, wysłać do,
		termín, termín dodání, datum dodání, odeslat do,
		leveransdatum, förfallodatum, senast, skicka senast`},
	{Concept: "notes", Names: `notes, note, comment, comments, remark, remarks, message, customer note,
		customer notes, order note, order notes, buyer note, message from buyer, special instructions, personalisation,
		personalization, gift message, instructions,
		notizen, notiz, bemerkung, bemerkungen, kommentar, kommentare, anmerkung, anmerkungen, hinweis, nachricht,
		kundennotiz, wunsch, gravur,
		remarque, remarques, commentaire, commentaires, observation, observations, personnalisation,
		notas, nota, comentario, comentarios, observaciones, mensaje, commento, commenti, osservazioni, messaggio,
		opmerking, opmerkingen, notitie, notities, bericht, observações, comentário, comentários, mensagem,
		uwagi, uwaga, notatka, komentarz, wiadomość, poznámka, poznámky, komentář, zpráva,
		anteckning, anteckningar, meddelande, anmärkning`},
	{Concept: "status", Names: `status, order status, order state, financial status,
		bestellstatus, auftragsstatus, zustand, statut, état, statut de la commande, statut commande,
		estado, estado del pedido, stato, stato ordine, orderstatus, bestelstatus, estado do pedido, situação,
		stan, status zamówienia, stan zamówienia, stav, stav objednávky`},
	{Concept: "shipping_status", Names: `fulfillment status, fulfilment status, shipping status, shipment status,
		delivery status, versandstatus, lieferstatus, statut d'expédition, statut de livraison, estado de envío,
		estado del envío, stato spedizione, verzendstatus, status do envio, estado do envio, status wysyłki,
		stav dopravy, stav odeslání, leveransstatus, fraktstatus`},
	{Concept: "line_status", Names: `lineitem fulfillment status, item status, line status, positionsstatus`},
	{Concept: "shipped_at", Names: `shipped, date shipped, ship date, shipped on, shipped at, shipped date,
		dispatched, dispatch date, fulfilled at, sent, sent on, shipped on date,
		versendet, versandt, versanddatum, versendet am, verschickt, verschickt am,
		expédié, expédié le, date d'expédition, envoyé, envoyé le, enviado, fecha de envío, enviado el,
		spedito, data di spedizione, data spedizione, spedito il, verzonden, verzenddatum, verzonden op,
		data de envio, enviado em, wysłano, data wysyłki, wysłane, odesláno, datum odeslání, expedováno,
		skickad, skickat, skickad den`},
	{Concept: "cancelled_at", Names: `cancelled at, cancelled, canceled, canceled at, cancelled on,
		cancellation date, cancelled date, storniert, stornodatum, storniert am, storno,
		annulé, annulé le, date d'annulation, cancelado, anulado, fecha de cancelación, annullato, data annullamento,
		geannuleerd, annuleringsdatum, cancelado em, data de cancelamento, anulowano, anulowane, data anulowania,
		zrušeno, stornováno, datum zrušení, annullerad, makulerad`},
	{Concept: "updated_at", Names: `updated at, updated, modified, date modified, modified date, last modified,
		last updated, modified at, order modified date, geändert, geändert am, modifié le, modificado, modificato,
		gewijzigd, atualizado em, data modyfikacji, změněno, upraveno, ändrad, uppdaterad`},
	{Concept: "title", Names: `title, item, item name, item title, product, product name, product title, article,
		description, listing, listing title, lineitem name, line item, line item name, items.product_name, article name,
		item description, product description,
		artikel, artikelname, artikelbezeichnung, produkt, produktname, bezeichnung, beschreibung, position, ware,
		produit, nom du produit, désignation, libellé, nom de l'article,
		artículo, producto, nombre del producto, descripción, articolo, prodotto, nome prodotto, descrizione,
		artikelnaam, productnaam, omschrijving, artigo, produto, nome do produto, descrição,
		nazwa produktu, towar, nazwa, opis, przedmiot, výrobek, název, název produktu, zboží, položka, popis,
		produktnamn, artikelnamn, benämning, vara, beskrivning`},
	{Concept: "variation", Names: `variation, variations, variant, variant title, variant name, options, option,
		product variation, product options, variation details, variante, varianten, ausführung, optionen,
		déclinaison, variación, opciones, variazione, opzioni, uitvoering, opties, variação, opções,
		wariant, opcje, varianta, provedení, možnosti, alternativ, utförande`},
	{Concept: "sku", Names: `sku, item sku, product sku, lineitem sku, line item sku, item number, item no,
		article number, article no, custom label, part number, product code, items.sku, stock code, variant sku,
		artikelnummer, artikelnr, artikel nr, art nr, produktnummer, produktcode,
		référence article, référence produit, code article, code produit, código, código de artículo,
		código de producto, referencia del producto, codice, codice articolo, codice prodotto,
		artikelcode, productcode, código do produto, kod, kod produktu, indeks, symbol, kód, kód produktu,
		kód zboží, artikelkod, produktkod`},
	{Concept: "quantity", Names: `quantity, qty, count, pieces, pcs, units, quantity ordered, item quantity,
		lineitem quantity, items.quantity, quantity purchased, qty ordered, quantity sold, amount,
		menge, anzahl, stück, stk, stückzahl, bestellmenge, quantité, qté, qte, cantidad, cant, unidades, uds,
		quantità, qtà, qta, pezzi, pz, aantal, stuks, hoeveelheid, quantidade, qtd, qtde,
		ilość, liczba, szt, sztuk, liczba sztuk, množství, počet, ks, kusů, počet kusů, antal, st, stycken, kvantitet`},
	{Concept: "refunded_quantity", Names: `refunded quantity, item refunded qty, item refunded quantity,
		quantity refunded, refunded qty, returned quantity, erstattete menge, retournierte menge`},
	{Concept: "selling_price", Names: `price, unit price, item price, price each, item cost, lineitem price,
		price per unit, selling price, items.unit_price, each, sold for,
		preis, stückpreis, einzelpreis, verkaufspreis, vk, prix, prix unitaire, prix de vente,
		precio, precio unitario, precio de venta, prezzo, prezzo unitario, prezzo di vendita,
		prijs, stukprijs, eenheidsprijs, verkoopprijs, preço, preço unitário, valor unitário, preço de venda,
		cena, cena jednostkowa, cena sprzedaży, cena za kus, jednotková cena, prodejní cena,
		pris, styckpris, à-pris, försäljningspris`},
	{Concept: "line_price", Names: `line total, line price, item total, line item total, item subtotal,
		order line total, positionspreis, positionssumme, zeilensumme, total ligne, total línea, totale riga,
		regeltotaal, total da linha, wartość pozycji, celkem za položku, radsumma, radtotal`},
	{Concept: "discount_price", Names: `line discount, lineitem discount, item discount, discount of line,
		positionsrabatt, remise ligne, radrabatt`},
	{Concept: "line_id", Names: `line id, line item id, lineitem id, item id, order item id, order line id,
		transaction id, positionsnummer, positions id`},

	// What production does not need.
	{Concept: "", Names: `order date, date, sale date, created, created at, date created, date paid, paid at,
		paid on, date ordered, ordered, ordered on, purchase date, time, completed date, paid,
		email, e-mail, mail, phone, telephone, mobile, company, address, address 1, address 2, address1, address2, street,
		zip, zip code, postcode, postal code, city, town, state, province, region, country, country code, state code,
		billing address, shipping address, shipping country, shipping city, shipping zip, shipping street,
		total, order total, grand total, total price, order value, subtotal, tax, taxes, vat, shipping, shipping cost,
		postage, fee, fees, discount, discount code, discount amount, coupon, coupon code, coupon details, currency,
		payment, payment method, payment type, payment status, shipping method, weight, image, image url, url, link,
		tracking, tracking number, id, listing id, product id, customer id, tags, vendor, number of items, order type,
		invoice, invoice number, gift, cost, profit, items.id, items.product_id, revenue, margin,
		ready_at, items.produced, items.planned, items.delivered, items.picture_version, unknown_parts,
		hidden_at, hidden_by, hidden_by_name,
		datum, bestelldatum, auftragsdatum, kaufdatum, bezahlt am, telefon, adresse, anschrift, straße, plz, ort, stadt,
		land, gesamt, gesamtpreis, gesamtbetrag, summe, betrag, steuer, mwst, versand, versandkosten, rabatt, gutschein,
		währung, zahlung, zahlungsart, zahlungsstatus, bezahlt, gewicht, bild, rechnungsnummer, firma, kundennummer,
		date de commande, date commande, téléphone, rue, code postal, ville, pays, total ttc, montant, tva, livraison,
		remise, devise, paiement, mode de paiement, poids, société,
		fecha, fecha de pedido, fecha del pedido, correo, teléfono, dirección, calle, código postal, ciudad, país,
		importe, iva, envío, descuento, moneda, pago, método de pago, peso, empresa, importe total,
		data, data ordine, telefono, indirizzo, via, cap, città, paese, totale, importo, spedizione, sconto, valuta,
		pagamento, metodo di pagamento, azienda,
		besteldatum, orderdatum, telefoon, adres, straat, stad, plaats, totaal, bedrag, btw, verzending, verzendkosten,
		korting, betaling, betaalmethode, bedrijf, gewicht,
		data do pedido, telefone, endereço, rua, cidade, valor, valor total, frete, desconto, moeda,
		data zamówienia, adres, ulica, kod pocztowy, miasto, kraj, suma, razem, kwota, wysyłka, rabat, waluta,
		płatność, metoda płatności, waga, firma,
		datum objednávky, adresa, ulice, psč, město, země, celkem, částka, dph, doprava, sleva, měna, platba,
		způsob platby, hmotnost,
		beställningsdatum, adress, gata, postnummer, postort, totalt, summa, belopp, moms, frakt, betalning,
		betalningssätt, vikt, företag`},
}

// state is what a word for the status of an order says.
type state int

const (
	unknown   state = iota
	isOpen          // it is to be printed
	isWaiting       // it is not paid yet
	isCancelled
	isShipped
)

// states has the words for states, without regard to case, accents and punctuation.
var states = map[string]state{}

func init() {
	for of, all := range map[state]string{
		isOpen: `processing, paid, on hold, open, new, received, in production, unfulfilled, partial, active, pending,
			authorized, partially refunded, partially paid, partially shipped, partially fulfilled, in progress,
			to do, confirmed, accepted, no, unshipped, not shipped,
			offen, neu, bezahlt, in bearbeitung, in arbeit, in produktion, wartend, angenommen, nein,
			payé, payée, en cours, ouvert, ouverte, nouveau, nouvelle, en attente, non,
			pagado, pagada, en proceso, procesando, nuevo, abierto, pendiente, en espera,
			pagato, in lavorazione, nuovo, aperto, in attesa, betaald, in behandeling, nieuw,
			pago, em processamento, processando, novo, aberto, pendente,
			opłacone, w trakcie realizacji, w realizacji, przetwarzane, nowe, zaplaceno, zpracovává se, nová, nové,
			přijatá, betald, behandlas, ny, öppen, pågår`,
		isWaiting: `pending payment, unpaid, awaiting payment, draft, checkout draft, auto draft, payment pending,
			zahlung ausstehend, unbezahlt, entwurf, wartet auf zahlung, en attente de paiement, impayé, brouillon,
			pendiente de pago, no pagado, borrador, in attesa di pagamento, non pagato, bozza, wachtend op betaling,
			onbetaald, concept, pagamento pendente, não pago, rascunho, oczekuje na płatność, nieopłacone, szkic,
			čeká na platbu, nezaplaceno, koncept, väntar på betalning, obetald, utkast`,
		isCancelled: `cancelled, canceled, refunded, failed, trash, deleted, fully refunded, voided, expired, declined,
			rejected, storniert, abgebrochen, erstattet, fehlgeschlagen, annulé, annulée, remboursé, remboursée, échoué,
			échouée, cancelado, cancelada, anulado, anulada, reembolsado, reembolsada, fallido,
			annullato, cancellato, rimborsato, fallito, geannuleerd, terugbetaald, mislukt, estornado, falhou,
			anulowane, anulowano, zwrócone, nieudane, zrušeno, zrušená, stornováno, vráceno, selhalo,
			avbruten, annullerad, återbetald, misslyckad, makulerad`,
		isShipped: `shipped, completed, complete, done, fulfilled, delivered, dispatched, sent, closed, archived,
			finished, picked up, yes, versendet, versandt, verschickt, erledigt, abgeschlossen, geliefert, zugestellt, fertig,
			abgeholt, ja, expédié, expédiée, livré, livrée, terminé, terminée, envoyé, envoyée, oui,
			enviado, enviada, entregado, completado, terminado, spedito, consegnato, completato, evaso,
			verzonden, afgerond, geleverd, voltooid, entregue, concluído, wysłane, wysłano, zrealizowane, dostarczone,
			zakończone, odesláno, doručeno, dokončeno, vyřízeno, vyřízená, skickad, levererad, slutförd`,
	} {
		for word := range strings.SplitSeq(all, ",") {
			states[imports.Key(word)] = of
		}
	}
}

// stateOf returns what a word says. WooCommerce writes wc- before its words.
func stateOf(word string) state {
	key := imports.Key(word)
	if s := states[key]; s != unknown {
		return s
	}
	return states[strings.TrimPrefix(key, "wc")]
}

// isSet reports whether a column such as "shipped" says that it happened: it has a date, or a word that does not deny
// it.
func isSet(text string) bool {
	key := imports.Key(text)
	return key != "" && key != "false" && key != "0" && key != "faux" && key != "falsch" && stateOf(text) != isOpen
}
