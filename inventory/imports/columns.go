package imports

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// A concept is what a column of somebody's list means. Its name is that of a field of a spool, or one of these, from
// which the import makes fields:
//
//	filament_name       the name of a filament as shops write it, such as "Prusament PLA Galaxy Black"
//	quantity            the number of equal spools
//	remaining_percent   what is left of the net weight, in percent
//	used_weight_grams   what is used of the net weight
//	gross_weight_grams  what is left, with the empty spool
//	price_per_kg        the price of a kilogram
//	total_price         the price of all spools of the row
//
// Resources have other fields for some of them; see conceptsOf.

// titles are the names that people give to columns, in English, German, French, Spanish, Italian, Dutch, Portuguese,
// Polish, Czech and Swedish, and those of other programs. Case, accents, punctuation, and units do not matter. A name
// that stands in several lists means the first concept that is still free.
var titles = Titles{
	{"brand", `brand, brand name, make, maker, manufacturer, manufactured by, mfr, mfg, vendor, vendor name, producer,
		company, filament brand, filament.vendor.name, filament vendor,
		marke, hersteller, herstellername, produzent, fabrikat, firma, filamenthersteller,
		marque, fabricant, fabriquant, constructeur, producteur, fabricant du filament,
		marca, fabricante, productor, casa, marca del filamento,
		produttore, casa produttrice, costruttore, marca filamento,
		merk, fabrikant, producent, merknaam,
		produtor, marca do filamento,
		marka, wytwórca, producent filamentu,
		výrobce, značka, firma,
		märke, tillverkare, varumärke, fabrikör`},
	{"supplier", `supplier, seller, shop, store, retailer, dealer, reseller, merchant, bought from, bought at,
		purchased from,
		purchased at, source, vendor, where bought, ordered from,
		lieferant, händler, verkäufer, bezugsquelle, quelle, gekauft bei, bestellt bei, laden, geschäft,
		fournisseur, magasin, vendeur, boutique, acheté chez, revendeur, source d'achat,
		proveedor, tienda, vendedor, comprado en, distribuidor,
		fornitore, negozio, venditore, acquistato da, rivenditore, comprato da,
		leverancier, winkel, verkoper, gekocht bij, besteld bij,
		fornecedor, loja, comprado na, revendedor,
		dostawca, sklep, sprzedawca, kupione w, źródło,
		dodavatel, obchod, prodejce, koupeno u, e-shop, eshop,
		leverantör, butik, återförsäljare, köpt hos, säljare`},
	{"material_type", `material, material type, type, filament type, type of filament, plastic, plastic type,
		polymer, mat,
		filament.material, filament material, kind,
		materialtyp, materialart, filamenttyp, filamentart, kunststoff, werkstoff, typ, art, sorte, filamentmaterial,
		plastik,
		matériau, matériel, matière, type de filament, type de matériau, plastique, type de plastique, type matière,
		tipo, tipo de filamento, tipo de material, plástico, materia, tipo material, tipo filamento,
		materiale, tipo di filamento, tipo di materiale, tipo materiale, plastica, materia prima,
		materiaal, materiaalsoort, materiaaltype, soort, filamentsoort, filamenttype, kunststof, soort filament,
		tipo de plástico,
		materiał, rodzaj, rodzaj filamentu, rodzaj materiału, typ filamentu, typ materiału, tworzywo,
		materiál, druh, druh materiálu, typ materiálu, druh filamentu, plast,
		materialtyp, filamentsort, plasttyp, sort`},
	{"color", `color, colour, color name, colour name, filament color, filament colour, col, shade,
		farbe, farbton, farbname, filamentfarbe, farbbezeichnung,
		couleur, coloris, teinte, nom de couleur, couleur du filament,
		color del filamento, nombre del color, tono,
		colore, tinta, nome colore, colore filamento,
		kleur, kleurnaam, filamentkleur,
		cor, nome da cor, cor do filamento,
		kolor, barwa, nazwa koloru, kolor filamentu,
		barva, odstín, název barvy, barva filamentu,
		färg, kulör, färgnamn, filamentfärg`},
	{"color_hex", `hex, hex code, hexcode, color hex, colour hex, hex color, hex colour, color code, colour code,
		rgb, rgb hex,
		html color, html colour, html code, web color, #hex, filament.color_hex, swatch, color value,
		farbcode, hexfarbe, hexwert, hex-farbe, farbwert, rgb-wert, farbe hex, farbe code,
		code couleur, code hexa, code hex, couleur hex, hexadécimal,
		código de color, código hex, color hexadecimal,
		codice colore, codice hex, colore hex,
		kleurcode, kleur hex, hex-kleur,
		código da cor, cor hex,
		kod koloru, kolor hex,
		kód barvy, barva hex,
		färgkod, färg hex, hexfärg`},
	{"finish", `finish, surface, effect, texture, look, appearance, sheen, gloss, type, style,
		oberfläche, effekt, glanz, textur, aussehen, optik, finish/effekt,
		finition, aspect, effet, surface,
		acabado, efecto, textura, aspecto,
		finitura, effetto, aspetto, superficie,
		afwerking, oppervlak, glans, uiterlijk,
		acabamento, efeito, aparência,
		wykończenie, efekt, powierzchnia,
		povrch, úprava, vzhled, povrchová úprava,
		yta, ytfinish, utseende, ytbehandling`},
	{"diameter_mm", `diameter, dia, diam, ø, filament diameter, thickness, size mm, filament.diameter,
		filament size, mm, gauge,
		durchmesser, filamentdurchmesser, dicke, stärke, filamentstärke, durchm,
		diamètre, épaisseur, diamètre du filament,
		diámetro, grosor, diámetro del filamento,
		diametro, spessore, diametro filamento,
		diameter filament, dikte, filamentdiameter, draaddikte,
		diâmetro, espessura,
		średnica, średnica filamentu, grubość, fi,
		průměr, průměr struny, tloušťka,
		diameter mm, tjocklek, tråddiameter`},
	{"net_weight_grams", `net weight, weight, net, original weight, initial weight, weight initial,
		weight original, starting weight, start weight, total g, total grams, total kg,
		full weight,
		new weight, nominal weight, spool size, roll size, size, capacity, filament weight, weight new, package size,
		net wt, wt,
		weight of filament, initial_weight, filament.weight, grams, gram, g, kg, total weight, roll weight, amount,
		content,
		contents, weight net, filament amount, quantity,
		nettogewicht, netto, gewicht, gewicht netto, füllgewicht, filamentgewicht, inhalt, füllmenge, anfangsgewicht,
		ausgangsgewicht, startgewicht, neugewicht, originalgewicht, rollengröße, spulengröße, rollengewicht,
		packungsgröße,
		gebinde, gebindegröße, gramm, menge, gewicht neu, gewicht voll, größe, kapazität,
		poids, poids net, poids initial, contenance, poids neuf, poids de filament, poids d'origine, masse,
		masse nette,
		grammes, contenu, capacité, quantité, taille, poids filament,
		peso, peso neto, peso inicial, contenido, peso original, gramos, peso del filamento, peso nuevo, tamaño,
		capacidad,
		peso netto, peso iniziale, contenuto, peso originale, grammi, peso filamento, peso nuovo, capacità, formato,
		gewicht nieuw, startgewicht, inhoud, beginsgewicht, begingewicht, hoeveelheid,
		peso líquido, conteúdo, gramas, peso do filamento, peso novo, capacidade, tamanho,
		waga, waga netto, masa, masa netto, waga początkowa, pojemność, gramy, waga filamentu, gramatura, ciężar,
		hmotnost, váha, čistá hmotnost, hmotnost netto, obsah, počáteční hmotnost, čistá váha, gramy,
		hmotnost filamentu,
		vikt, nettovikt, startvikt, ursprungsvikt, ursprunglig vikt, innehåll, ny vikt, filamentvikt, storlek,
		mängd`},
	{"remaining_weight_grams", `remaining, remain, remaining weight, left, weight left, grams left, g left,
		remaining filament,
		remaining grams, remaining amount, current weight, weight current, current,
		available, filament left, amount left, remainder,
		rest,
		balance, on hand, in stock, stock, remaining_weight, left over, leftover, weight remaining, weight,
		rest, restgewicht, restmenge, verbleibend, verbleibendes gewicht, übrig, noch da, noch übrig, aktuell,
		bestand,
		aktuelles gewicht, istgewicht, verfügbar, vorhanden, restbestand, gramm übrig, gewicht aktuell, noch, gewicht,
		restant, restante, poids restant, reste, quantité restante, disponible, il reste, poids actuel, reste en g,
		stock,
		peso restante, queda, quedan, peso actual, resto, sobrante, existencias, cantidad restante, gramos restantes,
		rimanente, peso rimanente, residuo, peso residuo, rimasto, disponibile, rimanenza, giacenza,
		quantità residua, resta,
		resterend, resterend gewicht, over, restant, resterende hoeveelheid, beschikbaar, huidig gewicht, voorraad,
		nog over,
		sobra, disponível, peso atual, resta, estoque, quantidade restante, saldo,
		pozostało, pozostała waga, zostało, pozostałe, pozostałość, reszta, stan, dostępne, aktualna waga,
		pozostała masa,
		zbývá, zbývající, zbývající hmotnost, zbytek, zůstatek, zbývá g, aktuální hmotnost, zbylo, k dispozici,
		kvar, återstår, återstående, återstående vikt, kvarvarande, kvarvarande vikt, nuvarande vikt, finns kvar,
		vikt kvar`},
	{"remaining_percent", `percent, percentage, percent left, percent remaining, remaining percent,
		remaining percentage, pct,
		fill level, level, fill, how full, % left,
		prozent, füllstand, füllgrad, rest in prozent, restprozent, rest %,
		pourcentage, pourcentage restant, niveau, taux restant, % restant,
		porcentaje, porcentaje restante, nivel, % restante,
		percentuale, percentuale rimanente, livello, % rimanente,
		percentage over, resterend percentage, procent, vulgraad, niveau, % over,
		percentagem, porcentagem, percentual, nível,
		procent pozostały, poziom, % pozostało,
		procenta, procent zbývá, zbývá %, naplnění,
		procent kvar, nivå, fyllnadsgrad, % kvar`},
	{"used_weight_grams", `used, used weight, consumed, usage, grams used, weight used, used_weight, amount used,
		spent,
		verbraucht, verbrauch, verbrauchtes gewicht, benutzt, gramm verbraucht,
		utilisé, consommé, poids utilisé, quantité utilisée, consommation,
		usado, consumido, peso usado, gastado, gramos usados, consumo,
		usato, consumato, peso usato, utilizzato,
		verbruikt, gebruikt, verbruik, gebruikt gewicht,
		utilizado, gasto,
		zużyte, zużyto, zużycie, wykorzystano,
		použito, spotřebováno, spotřeba, využito,
		använt, förbrukat, förbrukning, använd vikt`},
	{"spool_weight_grams", `spool weight, empty weight, empty spool weight, empty spool, tare, tare weight,
		spool tare, core weight,
		weight of empty spool, weight empty, spool only, filament.spool_weight, spool_weight, reel weight,
		cardboard weight,
		leergewicht, spulengewicht, leerspule, leere spule, gewicht leere spule, spulenleergewicht, tara, spule leer,
		gewicht spule, gewicht leer, gewicht der spule, leergewicht spule,
		poids bobine, poids à vide, poids bobine vide, poids de la bobine, poids de la bobine vide, bobine vide,
		poids vide,
		peso bobina, peso de la bobina, peso bobina vacía, peso carrete, peso vacío, bobina vacía, peso del carrete,
		peso bobina vuota, peso a vuoto, bobina vuota, peso rocchetto, peso vuoto,
		leeg gewicht, leeggewicht, spoelgewicht, lege spoel, gewicht spoel, gewicht lege spoel, gewicht leeg,
		peso do carretel, peso vazio, peso da bobina, bobina vazia, carretel vazio, peso do carretel vazio,
		waga szpuli, masa szpuli, waga pustej szpuli, pusta szpula, tara szpuli, waga rolki,
		hmotnost cívky, váha cívky, prázdná cívka, hmotnost prázdné cívky, hmotnost špulky, váha prázdné cívky,
		spolvikt, rullvikt, tomvikt, vikt tom spole, tom spole, spolens vikt, vikt tom`},
	{"gross_weight_grams", `gross weight, gross, weight with spool, weight incl spool, weight including spool,
		scale weight,
		weighed, measured weight, scale, full spool weight, weight on scale, total weight,
		bruttogewicht, brutto, gewicht mit spule, gesamtgewicht, gewogen, waage, gewicht inkl spule, gewicht brutto,
		poids brut, poids total, poids avec bobine, pesée, brut, poids avec la bobine,
		peso bruto, peso con bobina, peso total, bruto, peso con carrete,
		peso lordo, peso con bobina, peso totale, lordo,
		brutogewicht, bruto gewicht, gewicht met spoel, totaalgewicht, bruto, gewicht incl spoel,
		peso com carretel, peso com bobina,
		waga brutto, waga ze szpulą, brutto, masa brutto, waga całkowita,
		hmotnost brutto, hmotnost s cívkou, váha s cívkou, brutto, celková hmotnost,
		bruttovikt, vikt med spole, totalvikt, vikt inkl spole`},
	{"purchase_price", `price, cost, purchase price, price paid, paid, unit price, unit cost, price per spool,
		price per roll,
		cost per spool, cost per roll, price each, amount paid, value, spool price, filament.price, filament cost,
		eur, euro, usd,
		dollar, gbp, chf, msrp, price incl vat, buy price, roll price,
		preis, kaufpreis, einkaufspreis, ek, ek preis, ek-preis, kosten, stückpreis, einzelpreis, bezahlt, wert,
		anschaffungspreis,
		preis pro rolle, preis pro spule, preis je rolle, preis je spule, preis brutto, rollenpreis, spulenpreis,
		betrag,
		bruttopreis, preis pro stück, anschaffungskosten,
		prix, prix d'achat, coût, tarif, prix unitaire, montant, prix ttc, prix payé, prix bobine, prix par bobine,
		valeur, coût d'achat,
		precio, precio de compra, coste, costo, precio unitario, importe, precio pagado, precio bobina, valor,
		precio por bobina,
		prezzo, prezzo d'acquisto, prezzo di acquisto, prezzo unitario, importo, pagato, prezzo bobina, valore,
		costo d'acquisto, spesa,
		prijs, aankoopprijs, inkoopprijs, stukprijs, betaald, prijs per rol, prijs per spoel, waarde, bedrag,
		preço, preço de compra, custo, preço unitário, valor pago, preço por bobina,
		cena, cena zakupu, koszt, cena jednostkowa, zapłacono, cena za szpulę, wartość, cena brutto, kwota,
		koszt zakupu,
		nákupní cena, pořizovací cena, náklady, cena za kus, cena za cívku, zaplaceno, hodnota, cena s dph,
		pris, inköpspris, kostnad, styckpris, betalt, pris per rulle, pris per spole, belopp, värde`},
	{"price_per_kg", `price per kg, price kg, cost per kg, cost kg, kg price, eur/kg, euro/kg, €/kg, $/kg,
		price per kilo,
		price per kilogram, kilo price,
		preis pro kg, preis je kg, preis kg, kilopreis, kg preis, kosten pro kg, preis/kilo,
		prix au kg, prix par kg, prix kg, prix au kilo, coût au kg,
		precio por kg, precio kg, precio por kilo, coste por kg, precio al kilo,
		prezzo al kg, prezzo kg, prezzo per kg, costo al kg, prezzo al chilo,
		prijs per kg, kiloprijs, prijs kg, prijs per kilo,
		preço por kg, preço kg, preço por quilo, custo por kg,
		cena za kg, cena kg, cena za kilogram, koszt za kg,
		cena za kilo,
		kilopris, pris per kg, pris kg, pris per kilo`},
	{"total_price", `total price, total cost, total, total paid, sum, total amount, line total,
		gesamtpreis, gesamt, summe, gesamtkosten, gesamtbetrag,
		prix total, coût total, montant total,
		precio total, coste total, importe total, costo total,
		prezzo totale, totale, costo totale, importo totale,
		totaalprijs, totaal, totale prijs, totale kosten,
		preço total, valor total, custo total,
		cena łączna, razem, łącznie, koszt całkowity, suma, wartość całkowita,
		celkem, celková cena, cena celkem,
		totalpris, totalt, totalkostnad, summa`},
	{"purchase_date", `date, purchase date, date of purchase, purchased, purchased on, bought, bought on, ordered,
		order date,
		date ordered, acquired, date bought, date purchased, buy date, received, date received, added, date added,
		delivery date,
		delivered, purchase,
		datum, kaufdatum, gekauft am, gekauft, bestelldatum, bestellt, bestellt am, einkaufsdatum, anschaffungsdatum,
		erworben,
		erworben am, lieferdatum, geliefert, eingang, wareneingang, kauf, anschaffung, rechnungsdatum, eingangsdatum,
		date d'achat, date achat, acheté le, acheté, date de commande, commandé le, reçu le, date d'acquisition,
		achat,
		date de livraison,
		fecha, fecha de compra, fecha compra, comprado, comprado el, fecha de pedido, adquirido, compra,
		fecha de entrega,
		data, data di acquisto, data acquisto, data d'acquisto, acquistato il, acquistato, comprato il, data ordine,
		acquisto,
		aankoopdatum, gekocht op, gekocht, besteldatum, aangekocht, datum aankoop, aankoop, leverdatum, besteld op,
		data de compra, data da compra, data compra, comprado em, data do pedido, data de aquisição,
		data zakupu, kupiono, kupione, zakupiono, data kupna, zakup, data zamówienia, data dostawy,
		datum nákupu, koupeno, datum koupě, zakoupeno, datum pořízení, pořízeno, nákup, datum objednávky,
		inköpsdatum, köpt, köpdatum, köpt datum, inköpt, inköp, beställd, leveransdatum, datum inköp`},
	{"notes", `notes, note, comment, comments, remark, remarks, memo, info, information, misc, miscellaneous,
		other, details,
		description, additional info,
		notizen, notiz, bemerkung, bemerkungen, kommentar, kommentare, anmerkung, anmerkungen, hinweis, hinweise,
		zusatz,
		sonstiges, zusatzinfo, beschreibung, details, erfahrungen,
		remarque, remarques, commentaire, commentaires, observation, observations, divers, infos, description,
		notas, nota, observaciones, observación, comentario, comentarios, detalles, descripción, otros, apuntes,
		appunti, osservazioni, osservazione, commenti, commento, annotazioni, descrizione, varie, altro,
		opmerking, opmerkingen, notitie, notities, toelichting, omschrijving, overig, bijzonderheden,
		observações, observação, comentário, comentários, anotações, descrição, obs, outros,
		uwagi, uwaga, notatki, notatka, komentarz, komentarze, opis, inne, dodatkowe informacje,
		poznámka, poznámky, komentář, popis, ostatní, pozn,
		anteckning, anteckningar, anmärkning, anmärkningar, kommentarer, övrigt, beskrivning, notering`},
	{"location", `location, place, storage, storage location, shelf, bin, box, where, position, slot, rack,
		drawer, cabinet, room,
		stored in, stored at, warehouse, drybox, dry box,
		ort, lagerort, lagerplatz, standort, platz, lager, regal, fach, ablage, kiste, schrank, schublade,
		aufbewahrung, stelle,
		liegt in, trockenbox, raum, regalplatz,
		emplacement, lieu, rangement, étagère, stockage, tiroir, boîte, lieu de stockage, localisation, armoire,
		endroit,
		ubicación, lugar, estante, almacén, localización, estantería, caja, cajón, sitio, posición,
		posizione, ubicazione, scaffale, luogo, magazzino, collocazione, ripiano, cassetto, scatola, deposito,
		locatie, plaats, plek, opslag, opslagplaats, stelling, schap, vak, kast, doos, magazijn, lade, plank,
		localização, local, prateleira, armazém, estoque local, caixa, gaveta, posição, depósito,
		lokalizacja, miejsce, półka, magazyn, regał, pudełko, szuflada, szafa, miejsce składowania, pozycja,
		umístění, místo, police, regál, sklad, krabice, skříň, uložení, šuplík, kde,
		plats, hylla, lagerplats, förvaring, placering, låda, skåp, var, lagerställe`},
	{"lot_number", `lot, lot number, lot no, lot nr, lot_nr, batch, batch number, batch no, batch nr, serial,
		serial number, batch id,
		charge, chargennummer, chargen nr, chargennr, charge nr, losnummer, los, seriennummer, los nr, lotnummer,
		numéro de lot, n° lot, no lot, n° de lot, numéro de série, lot de fabrication,
		lote, número de lote, n° lote, nº lote, núm lote, número de serie, partida,
		lotto, numero lotto, numero di lotto, n. lotto, n lotto, seriale,
		partij, partijnummer, batchnummer, lotnr, serienummer,
		lote nº, número do lote,
		partia, numer partii, nr partii, seria produkcyjna, numer seryjny, nr seryjny,
		šarže, číslo šarže, č. šarže, výrobní číslo, sériové číslo,
		parti, partinummer, batchnr, tillverkningsnummer, parti nr`},
	{"density_g_cm3", `density, filament.density, specific gravity, dichte, spezifisches gewicht, densité,
		masse volumique, densidad,
		densità, peso specifico, dichtheid, soortelijk gewicht, densidade, gęstość, hustota, densitet, g/cm3, g/cm³`},
	{"material_name", `material name, variant, subtype, sub type, line, product line, series, material variant,
		grade, filament line,
		variety, material subtype, modifier, blend,
		materialname, variante, produktlinie, produktreihe, serie, reihe, untertyp, modifikation, zusammensetzung,
		gamme, série, sous-type, nuance, ligne,
		gama, línea, subtipo, serie,
		linea, gamma, sottotipo, serie,
		reeks, lijn, subsoort, uitvoering,
		linha, variação,
		odmiana, seria, wariant, linia,
		řada, varianta, podtyp,
		produktserie, variant, undertyp`},
	{"filament_name", `name, filament, filament name, title, product, product name, item, item name, article,
		description, spool,
		spool name, label, designation, filament.name, filament description, roll, reel,
		bezeichnung, artikel, artikelbezeichnung, artikelname, produkt, produktname, produktbezeichnung, beschreibung,
		filamentname, spule, rolle, filamentbezeichnung,
		nom, désignation, produit, article, libellé, nom du produit, bobine, nom du filament, intitulé,
		nombre, artículo, producto, descripción, denominación, nombre del producto, filamento, bobina,
		nombre del filamento,
		nome, prodotto, articolo, descrizione, denominazione, nome prodotto, nome filamento, rocchetto,
		naam, omschrijving, productnaam, artikelnaam, spoel, rol, benaming,
		produto, descrição, artigo, nome do produto, carretel, designação,
		nazwa, produkt, opis, nazwa produktu, nazwa filamentu, szpula, towar,
		název, výrobek, popis, název produktu, cívka, název filamentu, zboží, položka,
		namn, benämning, beskrivning, artikelnamn, produktnamn, spole, rulle, vara`},
	{"quantity", `quantity, qty, count, number of spools, number of rolls, spools, rolls, pieces, pcs, amount,
		units, no of spools,
		# spools, # rolls, spool count, how many, in stock, stock, on hand, # of spools, num spools, reels,
		anzahl, menge, stück, stk, stückzahl, rollen, spulen, anzahl rollen, anzahl spulen, bestand, lagerbestand,
		anz, st, stueck,
		quantité, qté, qte, nombre de bobines, bobines, nb, nb bobines, nombre, unités, pièces, nb de bobines, stock,
		cantidad, cant, unidades, uds, ud, bobinas, número de bobinas, piezas, rollos, carretes, existencias,
		quantità, qtà, qta, pezzi, bobine, n bobine, numero bobine, pz, rocchetti, giacenza, numero di bobine,
		aantal, stuks, spoelen, aantal rollen, aantal spoelen, rollen, voorraad, hoeveelheid,
		quantidade, qtd, qtde, unidades, rolos, peças, carretéis, quant, estoque,
		ilość, liczba, sztuk, szt, szpule, sztuki, rolki, liczba szpul, ilość szpul, ilość sztuk, stan,
		množství, počet, ks, kusů, kusy, cívky, počet kusů, počet cívek, kus, rolí,
		antal, st, rullar, spolar, antal rullar, antal spolar, mängd, stycken`},
	{"archived", `archived, archive, empty, finished, used up, done, consumed, is empty, depleted, gone,
		leer, aufgebraucht, archiviert, verbraucht, ist leer, alle, fertig,
		vide, archivé, terminé, fini, épuisé, vidée,
		vacío, vacía, agotado, archivado, terminado, gastado, acabado,
		vuoto, vuota, finito, archiviato, esaurito, terminato,
		leeg, op, gearchiveerd, is leeg,
		vazio, vazia, arquivado, acabou, esgotado,
		puste, pusta, zarchiwizowane, skończone, zużyta, pusty, archiwum,
		prázdné, prázdná, archivováno, dojeté, spotřebovaná,
		tom, tomma, slut, arkiverad, förbrukad`},
	{"article_number", `article number, article no, sku, item number, item no, item code, part number, part no,
		product code,
		product number, ean, gtin, upc, barcode, mpn, asin, code, reference, catalog number, filament.article_number,
		material number,
		artikelnummer, artikelnr, artikel nr, art nr, bestellnummer, bestellnr, produktcode, produktnummer,
		strichcode, materialnummer,
		référence, réf, référence article, code produit, code article, code barre, code-barres,
		referencia, ref, código, código de producto, código de artículo, código de barras, cód,
		codice, codice articolo, riferimento, codice prodotto, codice a barre, rif,
		artikelcode, productcode, bestelcode, referentie, streepjescode,
		referência, código do produto,
		kod, kod produktu, indeks, symbol, nr katalogowy, numer katalogowy, kod kreskowy,
		kód, kód produktu, objednací číslo, katalogové číslo, kód zboží, čárový kód,
		artikelkod, produktkod, beställningsnummer, streckkod`},
	{"extruder_temperature_c", `nozzle temp, nozzle temperature, extruder temp, extruder temperature, print temp,
		print temperature,
		printing temperature, hotend, hotend temp, hot end temp, temperature, temp, temp nozzle,
		settings_extruder_temp,
		filament.settings_extruder_temp, extrusion temperature, nozzle,
		düsentemperatur, drucktemperatur, extrudertemperatur, temp düse, temperatur düse, temperatur, düse,
		hotendtemperatur,
		température buse, température d'extrusion, température d'impression, temp buse, température, buse,
		temperatura de impresión, temperatura boquilla, temp boquilla, temperatura extrusor, temperatura, boquilla,
		temperatura ugello, temperatura di stampa, temp ugello, temperatura estrusore, ugello,
		printtemperatuur, nozzletemperatuur, temp nozzle, temperatuur, temperatuur nozzle, spuitmondtemperatuur,
		temperatura do bico, temperatura de impressão, temp bico, bico,
		temperatura druku, temperatura dyszy, temp dyszy, temp druku, dysza,
		teplota trysky, teplota tisku, tryska, teplota, tisková teplota,
		munstyckstemperatur, utskriftstemperatur, printtemperatur, temp munstycke, munstycke, nozzeltemperatur`},
	{"bed_temperature_c", `bed temp, bed temperature, heated bed, heatbed, bed, temp bed, build plate temp,
		plate temperature,
		settings_bed_temp, filament.settings_bed_temp, build plate temperature,
		betttemperatur, heizbett, druckbett, temp bett, temperatur bett, bett, druckbetttemperatur, druckplatte,
		température plateau, température lit, temp plateau, plateau, température du plateau, lit chauffant,
		temperatura cama, temp cama, cama, temperatura de la cama, cama caliente,
		temperatura piatto, temp piatto, piatto, temperatura letto,
		bedtemperatuur, temp bed, printbed,
		temperatura da mesa, temperatura mesa, temp mesa, mesa,
		temperatura stołu, temp stołu, stół, temperatura podkładki,
		teplota podložky, podložka, teplota podlozky,
		bäddtemperatur, bädd, temp bädd, byggplatta`},
	{"category", `category, group, product group, kategorie, gruppe, warengruppe, catégorie, groupe, categoría,
		grupo, categoria,
		gruppo, categorie, groep, productgroep, kategoria, grupa, kategorie, skupina, kategori, grupp`},
	{"selling_price", `selling price, sale price, sales price, retail price, list price, price, vk, vk preis,
		verkaufspreis, preis,
		prix de vente, prix public, prix, precio de venta, pvp, precio, prezzo di vendita, prezzo, verkoopprijs,
		prijs,
		preço de venda, preço, cena sprzedaży, cena, prodejní cena, försäljningspris, pris, utpris`},
	{"print_minutes", `print time, printing time, estimated print time, duration, time, druckzeit, druckdauer,
		dauer, zeit,
		temps d'impression, durée, durée d'impression, tiempo de impresión, duración, tiempo, tempo di stampa,
		durata, tempo,
		printtijd, duur, tijd, tempo de impressão, duração, czas druku, czas, doba tisku, čas tisku, čas,
		utskriftstid, tid`},
	{"labour_minutes", `labour, labor, labour time, labor time, work time, post processing, arbeitszeit, arbeit,
		nacharbeit,
		main d'oeuvre, temps de travail, mano de obra, manodopera, lavoro, arbeidstijd, arbeid, mão de obra,
		robocizna, práce,
		arbetstid, arbete`},
	{"pieces_per_plate", `pieces per plate, per plate, plate quantity, stück pro platte, stück pro druckplatte,
		pièces par plateau,
		piezas por placa, pezzi per piatto, stuks per plaat, peças por mesa, sztuk na stole, kusů na podložku,
		per platta`},
	{"external_id", `external id, external_id, filament.external_id, externe id, id externe, id externo, id esterno`},
	{"filament_number", `filament number, filament no, filament nr, filament #, filamentnummer, numéro de filament,
		filament_id`},

	// What the service computes, or what only means something in the program from which it comes.
	{"", `remaining length, remaining_length, used length, used_length, length, cost per gram, price per gram,
		remaining value,
		filament.id, filament.registered, filament.vendor.id, filament.vendor.registered, filament.extra, extra,
		registered,
		price per lb, price per pound, price lb, cost per lb, cost per pound, $/lb,
		first used, last used, first_used, last_used, link, url, website, web, image, photo, picture, created,
		updated, modified,
		länge, restlänge, meter, kosten pro gramm, preis pro gramm, restwert, bild, foto, webseite, erstellt,
		geändert,
		longueur, coût par gramme, prix au gramme, photo, lien, site, longitud, coste por gramo, precio por gramo,
		enlace, imagen,
		lunghezza, costo al grammo, prezzo al grammo, immagine, lengte, prijs per gram, afbeelding, comprimento,
		custo por grama,
		długość, cena za gram, koszt za gram, zdjęcie, délka, cena za gram, obrázek, odkaz, längd, pris per gram,
		bild, länk,
		number, no, nr, num, #, id, spool number, spool no, spool id, lfd nr, lfd, pos, laufende nummer, nummer,
		spulennummer,
		spulen nr, rollennummer, numéro, n°, n, número, nº, núm, numero, n., volgnummer, spoelnummer, numer, lp,
		l.p., číslo, č,
		poř č, pořadí, löpnummer, rad, row, index, key, filament_id, filament id, vendor_id, vendor id`},
}

// Titles are the names of columns for concepts, separated by commas. The concept "" is of columns that mean nothing.
type Titles []struct{ Concept, Names string }

// dictionary maps normal forms of titles to the concepts that they can mean, the likeliest first.
type dictionary map[string][]string

// letters maps letters with accents, in lower case, to letters of ASCII.
var letters = map[rune]string{'ß': "ss", 'æ': "ae", 'œ': "oe", 'ø': "o", 'ð': "d", 'þ': "th", 'ł': "l", 'đ': "d",
	'ı': "i", '№': "no", '°': "", 'º': "", 'ª': "", '⌀': "o", 'µ': "u", '³': "3", '²': "2"}

func init() {
	for base, accents := range map[string]string{"a": "áàâãäåāăą", "c": "çćčĉċ", "d": "ď", "e": "éèêëēĕėęě", "g": "ğĝġģ",
		"h": "ĥ", "i": "íìîïĩīĭį", "j": "ĵ", "k": "ķ", "l": "ĺľļ", "n": "ñńňņ", "o": "óòôõöōŏő", "r": "řŕŗ", "s": "šśşŝș",
		"t": "ťţț", "u": "úùûüũūŭůűų", "w": "ŵ", "y": "ýÿŷ", "z": "žźż"} {
		for _, accent := range accents {
			letters[accent] = base
		}
	}
}

// fold returns a text in lower case, without accents.
func fold(text string) string {
	var b strings.Builder
	for _, c := range text {
		if c < 0x80 {
			if c >= 'A' && c <= 'Z' {
				c += 'a' - 'A'
			}
			b.WriteRune(c)
			continue
		}
		for _, l := range strings.ToLower(string(c)) {
			switch ascii, ok := letters[l]; {
			case ok:
				b.WriteString(ascii)
			case l >= 0x300 && l < 0x370: // an accent that stands alone
			default:
				b.WriteRune(l)
			}
		}
	}
	return b.String()
}

// hump matches the end of a word in a title such as currentWeightG.
var hump = regexp.MustCompile(`([\p{Ll}\d])(\p{Lu})`)

// words splits a title into words: letters and digits, and the signs that are units, each of them a word. A capital
// letter behind a small one begins a word.
func words(title string) (all []string) {
	start := -1
	text := fold(hump.ReplaceAllString(title, "$1 $2"))
	end := func(i int) {
		if start >= 0 {
			all = append(all, text[start:i])
		}
		start = -1
	}
	for i, c := range text {
		switch {
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c > 0x7f && !strings.ContainsRune("€£\u00a0‘’“”–—·•", c):
			if start < 0 {
				start = i
			}
		default:
			end(i)
			if strings.ContainsRune("%€$£#", c) {
				all = append(all, string(c))
			}
		}
	}
	end(len(text))
	return all
}

// units are words that say in which unit the numbers of a column are, with the unit for transfer.Number or "".
var units = map[string]string{"g": "g", "gr": "g", "gram": "g", "grams": "g", "gramm": "g", "grammes": "g",
	"gramos": "g", "grammi": "g", "gramas": "g", "kg": "kg", "kgs": "kg", "kilo": "kg", "kilogramm": "kg", "lb": "lb",
	"lbs": "lb", "pounds": "lb", "oz": "oz", "ounces": "oz", "mm": "mm", "cm": "cm",
	"m": "m", "meter": "m", "meters": "m", "metre": "m", "metres": "m", "metros": "m", "metri": "m", "%": "%",
	"percent": "%", "prozent": "%", "procent": "%", "pct": "%", "€": "", "$": "", "£": "", "eur": "", "euro": "",
	"euros": "", "usd": "", "gbp": "", "chf": "", "pln": "", "zl": "", "czk": "", "kc": "", "sek": "", "kr": "",
	"nok": "", "dkk": "", "brl": "", "cad": "", "aud": "", "huf": "", "pcs": "", "stk": "", "szt": "", "ks": "", "c": "",
	"h": "h", "min": "min", "hours": "h", "minutes": "min", "minuten": "min", "stunden": "h", "std": "h", "std.": "h"}

// filler are words that say nothing about what a column means.
var filler = map[string]bool{}

func init() {
	for word := range strings.FieldsSeq(`in per pro par por je the a an of de del della di der die das des du la
		le les el da do dos
		of for fur pour para filament filaments filamentu filamento spool spools spule spulen rolle rollen bobine
		bobina spoel
		rol szpula szpuli civka civky spole rulle roll incl inkl inc incluido inclus vat mwst tva iva btw dph moms
		ttc current
		cca ca approx per unit actual your my our mein meine unsere mon ma mi mio mia moj moja optional if known yyyy
		mm dd jjjj
		tt dd mm year date format e g eg z b est estimated`) {
		filler[word] = true
	}
}

// normal returns the normal form of a title: the letters and digits of its words. If the argument plain is set, the
// result is without units, what stands in brackets, and fillers.
func normal(title string, plain bool) string {
	if !plain {
		return strings.Join(words(title), "")
	}
	var kept []string
	for _, word := range words(withoutBrackets(title)) {
		if _, unit := units[word]; !unit && !filler[word] {
			kept = append(kept, word)
		}
	}
	return strings.Join(kept, "")
}

// Key returns the letters and digits of a text in lower case, without accents: texts of people with the same key mean
// the same.
func Key(text string) string { return normal(text, false) }

// withoutBrackets returns a text without the parts in brackets, unless nothing is left.
func withoutBrackets(text string) string {
	var b strings.Builder
	depth := 0
	for _, c := range text {
		switch c {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth = max(0, depth-1)
			b.WriteByte(' ')
		default:
			if depth == 0 {
				b.WriteRune(c)
			}
		}
	}
	if rest := strings.TrimSpace(b.String()); rest != "" {
		return rest
	}
	return text
}

// unitOf returns the unit in a title, such as kg, and whether there is one.
func unitOf(title string) (unit string, ok bool) {
	all := words(title)
	for i := len(all) - 1; i >= 0; i-- {
		if unit, ok := units[all[i]]; ok && unit != "" && (len(all) > 1 || unit == "kg" || unit == "%") {
			return unit, true
		}
	}
	return "", false
}

// meanings returns the concepts that the title of a column can mean, the likeliest first, and how sure that is: at
// most 100.
func (titlesOf dictionary) meanings(title string) (concepts []string, sure int) {
	all := words(withoutBrackets(title))
	trimmed := all
	for len(trimmed) > 1 {
		if _, unit := units[trimmed[len(trimmed)-1]]; !unit {
			break
		}
		trimmed = trimmed[:len(trimmed)-1]
	}
	for i, form := range []string{normal(title, false), strings.Join(all, ""), strings.Join(trimmed, ""),
		normal(title, true)} {
		if found := titlesOf[form]; found != nil {
			return found, 100 - 4*i
		}
	}
	// Some of its words, the most of them first, and of these the last: compound names end with what they are.
	for n := min(len(trimmed)-1, 4); n > 0; n-- {
		for i := len(trimmed) - n; i >= 0; i-- {
			form := strings.Join(trimmed[i:i+n], "")
			if found := titlesOf[form]; found != nil && len(form) > 2 && !(n == 1 && filler[form]) {
				if amounts[found[0]] && slices.ContainsFunc(trimmed, isLimit) {
					return []string{""}, 60
				}
				return found, 60
			}
		}
	}
	// The end or the beginning of a word, as in Filamentfarbe and Farbbezeichnung.
	best := ""
	for _, word := range trimmed {
		for n := len(word) - 1; n >= 4 && n > len(best); n-- {
			if titlesOf[word[len(word)-n:]] != nil && !filler[word[len(word)-n:]] {
				best = word[len(word)-n:]
			} else if n >= 5 && titlesOf[word[:n]] != nil && !filler[word[:n]] {
				best = word[:n]
			}
		}
	}
	if found := titlesOf[best]; found == nil || !amounts[found[0]] || !slices.ContainsFunc(trimmed, isLimit) {
		return found, 45
	}
	return []string{""}, 60
}

// amounts are concepts of which a farm wants to have a minimum.
var amounts = map[string]bool{"quantity": true, "net_weight_grams": true, "remaining_weight_grams": true,
	"remaining_percent": true}

// limits are the words of titles for an amount that should be there.
var limits = map[string]bool{}

func init() {
	for word := range strings.FieldsSeq(`threshold minimum minimal reorder alert warning warn warnung target desired
		safety seuil alerte umbral minimo minima alerta soglia drempel limite prog prah objetivo`) {
		limits[word] = true
	}
}

// isLimit reports whether a word of a title is one of limits, or begins with the German ones.
func isLimit(word string) bool {
	return limits[word] || strings.HasPrefix(word, "mindest") || strings.HasPrefix(word, "melde") ||
		strings.HasPrefix(word, "soll")
}

// dictionary returns the dictionary with the titles.
func (all Titles) dictionary() dictionary {
	titlesOf := dictionary{}
	for _, t := range all {
		for name := range strings.SplitSeq(t.Names, ",") {
			key := normal(name, false)
			if key == "" {
				panic("imports: a title without letters: " + name)
			}
			if known := titlesOf[key]; len(known) == 0 || known[len(known)-1] != t.Concept {
				titlesOf[key] = append(known, t.Concept)
			}
		}
	}
	return titlesOf
}

// ownTitles is the dictionary of titles. It is computed when it is first used, because it needs letters and filler.
var ownTitles = sync.OnceValue(titles.dictionary)
