package auth

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
	"spoolwright/value/language"
)

var settingsTag = &server.Tag{
	Name: "settings", Fields: fields,
	Description: "Settings of the tenant. Every user reads them, admins change them.",
}

const settingsPath = " /api/v1/settings"

func (s *Service) settingsRoutes() []server.Route {
	return []server.Route{
		server.Op("GET"+settingsPath, server.Read, server.Handle(s.getSettings), getSettingsDoc).Versioned(
			func(...string) []*db.Stmt {
				return []*db.Stmt{db.SQL(`
					select tenant_id as id from tenants where ` + ownTenant + ` for no key update`)}
			}),
		server.Op("PATCH"+settingsPath, server.Admin, server.Handle(s.updateSettings), updateSettingsDoc).ForUsers(),
	}
}

// Settings are the settings of a tenant.
type Settings struct {
	TimeZone     value.Optional[string]        `json:"time_zone" rule:"notNull,maxLength=100"`
	Currency     value.Optional[string]        `json:"currency"`
	LabourHour   value.Optional[value.Decimal] `json:"labour_hour_cost" rule:"maximum=1000000"`
	MachineHour  value.Optional[value.Decimal] `json:"machine_hour_cost" rule:"maximum=1000000"`
	MachinePower value.Optional[value.Decimal] `json:"machine_power_watts" rule:"maximum=1000000"`
	EnergyKWh    value.Optional[value.Decimal] `json:"energy_kwh_cost" rule:"maximum=1000000"`
	FailureRate  value.Optional[value.Decimal] `json:"failure_rate_percent" rule:"maximum=99"`
	Measured     value.Optional[bool]          `json:"failure_rate_measured" rule:"notNull"`
	TaxPercent   value.Optional[value.Decimal] `json:"sales_tax_percent" rule:"notNull,maximum=100"`
	Included     value.Optional[bool]          `json:"prices_include_tax" rule:"notNull"`
	Rates        []ExchangeRate                `json:"exchange_rates" rule:"patched,maxItems=200"`
	Assemble     value.Optional[bool]          `json:"assemble_on_delivery" rule:"notNull"`
	Confirm      value.Optional[string]        `json:"confirm_runs" rule:"notNull,enum=doubts|all,named=ConfirmRule"`
	Factor       value.Optional[string]        `json:"second_factor" rule:"notNull,enum=optional|admins|all,named=FactorRule"`
	FarmURL      value.Optional[string]        `json:"farm_url" rule:"maxLength=300"`
	Language     value.Optional[Language]      `json:"language"`
	UpdatedAt    value.Timestamp               `json:"updated_at" rule:"readOnly,notNull"`
}

// ExchangeRate is the value of a unit of a currency in the currency of the farm.
type ExchangeRate struct {
	Currency value.Optional[string]        `json:"currency" rule:"required"`
	Rate     value.Optional[value.Decimal] `json:"rate" rule:"required,exclusiveMinimum=0,maximum=1000000"`
	Date     value.Date                    `json:"exchange_date" rule:"readOnly,notNull"`
}

// Check reports a currency that does not exist.
func (r *ExchangeRate) Check(problems *server.Problems) {
	if !r.Currency.IsNull() && !IsCurrency(*r.Currency.Value) {
		problems.Add("currency", NoCurrency)
	}
}

// Check reports a currency that does not exist, or has two rates, and an address that is none. It removes a slash at
// the end of the address.
func (s *Settings) Check(problems *server.Problems) {
	if !s.FarmURL.IsNull() {
		var ok bool
		if *s.FarmURL.Value, ok = value.Origin(*s.FarmURL.Value); !ok {
			problems.Add("farm_url", "must be an address such as https://farm.example or http://192.168.1.20:8000, or null")
		}
	}
	if !s.Currency.IsNull() && !IsCurrency(*s.Currency.Value) {
		problems.Add("currency", NoCurrency)
	}
	seen := map[string]bool{}
	for i, r := range s.Rates {
		if seen[r.Currency.Or("")] {
			problems.Add(fmt.Sprintf("exchange_rates[%d].currency", i), "is in the list twice")
		}
		seen[r.Currency.Or("")] = true
	}
}

// NoCurrency is the problem with a text that is not the code of a currency.
const NoCurrency = "must be an ISO 4217 code such as EUR, or null"

// IsCurrency reports whether a text is the ISO 4217 code of a currency.
func IsCurrency(code string) bool { return slices.Contains(currencies, code) }

// Language is one of the languages of pages, e-mails and messages.
type Language string

// Enum returns the tags of all languages.
func (Language) Enum() []string { return language.Codes() }

const (
	ownTenant       = `tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid`
	settingsColumns = `time_zone, currency, labour_hour_cost, machine_hour_cost, machine_power_watts, energy_kwh_cost,
		failure_rate_percent, failure_rate_measured, sales_tax_percent, prices_include_tax, exchange_rates,
		assemble_on_delivery, confirm_runs, second_factor, farm_url, language, updated_at`
)

var getSettingsDoc = &server.Doc{
	ID: "getSettings", Tag: settingsTag, Summary: "Get the settings",
	Description: "Returns the time zone, the currency and the rates. The days, weeks and months of reports, and the " +
		"dates in filters of lists, begin in the time zone. Responses show the currency beside costs. Costs follow from " +
		"the rates. A new tenant has UTC, and no currency, rates or tax.",
}

func (s *Service) getSettings(ctx context.Context, r *server.Request[struct{}]) (server.OK[Settings], error) {
	settings := db.SQL(`select ` + settingsColumns + ` from tenants where ` + ownTenant)
	return server.One(settings, s.db.Read(ctx, settings))
}

var updateSettingsDoc = &server.Doc{
	ID: "updateSettings", Tag: settingsTag, Summary: "Change the settings",
	Description: "`time_zone` is a name of the IANA time zone database. After a change, reports are in the new zone " +
		"at once, and slower until the past days are summarized in it, within about an hour. The currency is only a " +
		"label: no amount of the farm is converted. `sales_tax_percent` and `prices_include_tax` apply to the prices of " +
		"products, and to later orders whose tax is not known otherwise. `exchange_rates` replaces the list. A rate " +
		"converts later orders in its currency, and those that are not converted yet; other orders keep their rates. A " +
		"change of a cost rate does not change the costs of past runs. A rate of null means that its part of a cost is " +
		"unknown; 0 leaves the part out.\n\nWith `second_factor`, admins or all users must have a second factor. A user " +
		"without a required second factor can only set it up: other operations return `OTP_SETUP_REQUIRED`. API keys do " +
		"not need one. An admin without a second factor cannot require it.\n\n`farm_url` is for what people of the farm " +
		"print and copy. Links in e-mails and messages begin with the setting `PUBLIC_URL` of the service, because several " +
		"farms may share it. `language` is that of e-mails and messages, otherwise in English, and of pages for users " +
		"without a language of their own. The API is in English.",
	Errors: []*server.Error{errOwnFactor},
}

var errOwnFactor = server.Conflict("OTP_NOT_ENABLED", "Set up your own second factor first").On("second_factor")

func (s *Service) updateSettings(ctx context.Context, r *server.Request[Settings]) (server.OK[Settings], error) {
	in := &r.In
	needsFactor := in.Factor.Or("optional") != "optional"
	caller := db.ActorOf(ctx)
	set, args := server.Assignments(in, []any{in.TimeZone.Arg(), needsFactor, caller.User, caller.Session})
	if in.Rates != nil {
		rows := make([]map[string]any, len(in.Rates))
		for i, r := range in.Rates {
			rows[i] = map[string]any{"currency": *r.Currency.Value, "rate": *r.Rate.Value}
		}
		rates, err := json.Marshal(rows)
		if err != nil {
			return nil, err
		}
		if args = append(args, string(rates)); set != "" {
			set += ", "
		}
		set += fmt.Sprintf(`exchange_rates = (
				select coalesce(jsonb_agg(jsonb_build_object('currency', n.currency, 'rate', n.rate,
					'exchange_date', coalesce(old.exchange_date, (now() at time zone time_zone)::date)) order by n.n), '[]')
				from rows from (jsonb_to_recordset($%d::jsonb) as (currency text, rate numeric)) with ordinality
					n (currency, rate, n)
				left join jsonb_to_recordset(exchange_rates) old (currency text, rate numeric, exchange_date date)
					on old.currency = n.currency and old.rate = n.rate)`, len(args))
	}
	if set == "" {
		return s.getSettings(ctx, &server.Request[struct{}]{})
	}
	hasFactor := false
	own := db.SQL(`select otp_at is not null or exists (select from sessions s where s.id::text = $2 and s.factor_met)
		from users where id = $1`, caller.User, caller.Session).Into(&hasFactor)
	// On some systems, pg_timezone_names also lists files that are not time zones.
	settings := db.SQL(`
		update tenants set `+set+`, updated_at = now()
		where `+ownTenant+` and ($1::text is null or $1 !~ '^(posix|right)/'
			and $1 not in ('localtime', 'posixrules', 'Factory')
			and exists (select from pg_timezone_names z where z.name = $1))
			and (not $2::boolean or exists (select from users u where u.id = $3 and u.otp_at is not null)
				or exists (select from sessions s where s.id::text = $4 and s.factor_met))
		returning `+settingsColumns, args...)
	err := s.db.Write(ctx, own, settings)
	if err == nil && settings.Rows() == 0 && needsFactor && !hasFactor {
		return nil, errOwnFactor
	}
	if err == nil && settings.Rows() == 0 {
		return nil, server.Invalid("time_zone", "must be a name of the IANA time zone database, such as Europe/Berlin")
	}
	return server.One(settings, err)
}

// currencies are the ISO 4217 codes of currencies, without codes for metals, funds and tests.
var currencies = strings.Fields(`
	AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CLP
	CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR
	ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT
	MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD
	SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU UZS VES VND
	VUV WST XAF XCD XCG XOF XPF YER ZAR ZMW ZWG`)
