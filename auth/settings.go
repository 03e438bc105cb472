package auth

import (
	"context"
	"slices"
	"strings"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
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
	Assemble     value.Optional[bool]          `json:"assemble_on_delivery" rule:"notNull"`
	Factor       value.Optional[FactorRule]    `json:"second_factor" rule:"notNull"`
	UpdatedAt    value.Timestamp               `json:"updated_at" rule:"readOnly,notNull"`
}

// FactorRule says which users of a tenant must have a second factor.
type FactorRule string

// Enum returns all rules.
func (FactorRule) Enum() []string { return []string{"optional", "admins", "all"} }

const (
	ownTenant       = `tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid`
	settingsColumns = `time_zone, currency, labour_hour_cost, machine_hour_cost, machine_power_watts, energy_kwh_cost,
		failure_rate_percent, failure_rate_measured, assemble_on_delivery, second_factor, updated_at`
)

var getSettingsDoc = &server.Doc{
	ID: "getSettings", Tag: settingsTag, Summary: "Get the settings",
	Description: "Returns the time zone, in which the days, weeks and months of reports and the dates in filters of " +
		"lists begin, the currency, which responses show beside costs, and the rates from which costs follow. A new " +
		"tenant has UTC, and neither a currency nor rates.",
}

func (s *Service) getSettings(ctx context.Context, r *server.Request[struct{}]) (server.OK[Settings], error) {
	settings := db.SQL(`select ` + settingsColumns + ` from tenants where ` + ownTenant)
	return server.One(settings, s.db.Read(ctx, settings))
}

var updateSettingsDoc = &server.Doc{
	ID: "updateSettings", Tag: settingsTag, Summary: "Change the settings",
	Description: "`time_zone` is a name of the IANA time zone database. After a change, reports are in the new zone " +
		"at once, and slower until the past days are summarised in it, within about an hour. The currency is only " +
		"shown: no amount is converted. A change of a rate does not change what past runs cost. A rate of null means that " +
		"its part of a cost is unknown; 0 leaves the part out.\n\nWith `second_factor`, admins or all users must have a " +
		"second factor. A user who must and has none can only set it up: other operations return `OTP_SETUP_REQUIRED`. " +
		"API keys do not need one. An admin without a second factor cannot require it.",
	Errors: []*server.Error{errOwnFactor},
}

var errOwnFactor = server.Conflict("OTP_NOT_ENABLED", "Set up your own second factor first").On("second_factor")

func (s *Service) updateSettings(ctx context.Context, r *server.Request[Settings]) (server.OK[Settings], error) {
	in := &r.In
	if !in.Currency.IsNull() && !slices.Contains(currencies, *in.Currency.Value) {
		return nil, server.Invalid("currency", "must be an ISO 4217 code such as EUR, or null")
	}
	needsFactor := in.Factor.Or("optional") != "optional"
	set, args := server.Assignments(in, []any{in.TimeZone.Arg(), needsFactor, db.ActorOf(ctx).User})
	if set == "" {
		return s.getSettings(ctx, &server.Request[struct{}]{})
	}
	hasFactor := false
	own := db.SQL(`select otp_at is not null from users where id = $1`, db.ActorOf(ctx).User).Into(&hasFactor)
	// On some systems, pg_timezone_names also lists files that are not time zones.
	settings := db.SQL(`
		update tenants set `+set+`, updated_at = now()
		where `+ownTenant+` and ($1::text is null or $1 !~ '^(posix|right)/'
			and $1 not in ('localtime', 'posixrules', 'Factory')
			and exists (select from pg_timezone_names z where z.name = $1))
			and (not $2::boolean or exists (select from users u where u.id = $3 and u.otp_at is not null))
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
