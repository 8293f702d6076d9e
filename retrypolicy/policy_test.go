package retrypolicy_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/retrypolicy"
	"github.com/stretchr/testify/require"
)

const longest = 4294967294 * time.Millisecond

type edit = func(*retrypolicy.WorkflowNodeRetryPolicy)

func TestDefaultsAreThoseOfTheSeeds(t *testing.T) {
	p := retrypolicy.New()
	require.Nil(t, p.Retryable)
	require.Equal(t, retrypolicy.WorkflowNodeRetryPolicy{MaxAttempts: 1, InitialDelay: time.Second, BackoffMultiplier: 2}, p)

	p = retrypolicy.Standard()
	require.True(t, p.Retryable(errX))
	require.False(t, p.Retryable(nil))
	p.Retryable = nil
	require.Equal(t, retrypolicy.WorkflowNodeRetryPolicy{
		MaxAttempts: 3, InitialDelay: 100 * time.Millisecond, BackoffMultiplier: 2, MaxDelay: 30 * time.Second, Jitter: 0.5,
	}, p)
	require.NoError(t, retrypolicy.New().Validate())
	require.NoError(t, retrypolicy.Standard().Validate())
	require.Empty(t, retrypolicy.Standard().Warnings())
}

func TestValidateRefusesEachBadField(t *testing.T) {
	for field, edits := range map[string]struct{ bad, good []edit }{
		"MaxAttempts": {
			bad:  []edit{func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.MaxAttempts = 0 }, func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.MaxAttempts = -1 }},
			good: []edit{func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.MaxAttempts = math.MaxInt }},
		},
		"InitialDelay": {
			bad: []edit{
				func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.InitialDelay = -1 },
				func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.InitialDelay = longest + 1 },
				func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.InitialDelay = math.MaxInt64 },
			},
			good: []edit{
				func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.InitialDelay = 0 },
				func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.InitialDelay = longest },
			},
		},
		"BackoffMultiplier": {
			bad: []edit{
				func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.BackoffMultiplier = -0.1 },
				func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.BackoffMultiplier = math.NaN() },
				func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.BackoffMultiplier = math.Inf(1) },
				func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.BackoffMultiplier = math.Inf(-1) },
			},
			good: []edit{
				func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.BackoffMultiplier = 0 },
				func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.BackoffMultiplier = math.MaxFloat64 },
			},
		},
		"MaxDelay": {
			bad: []edit{func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.MaxDelay = -1 }},
			good: []edit{
				func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.MaxDelay = 0 },
				func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.MaxDelay = math.MaxInt64 },
			},
		},
		"Jitter": {
			bad: []edit{
				func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.Jitter = -0.1 },
				func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.Jitter = 1.1 },
				func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.Jitter = math.NaN() },
			},
			good: []edit{
				func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.Jitter = 0 },
				func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.Jitter = 1 },
			},
		},
	} {
		t.Run(field, func(t *testing.T) {
			for _, bad := range edits.bad {
				p := retrypolicy.New()
				bad(&p)
				var fe *retrypolicy.FieldError
				require.ErrorAs(t, p.Validate(), &fe)
				require.Equal(t, field, fe.Field)
				require.NotEmpty(t, fe.Value)
				require.Contains(t, fe.Error(), "pawl: retry policy: "+field+" is "+fe.Value+": use ")
			}
			for _, good := range edits.good {
				p := retrypolicy.New()
				good(&p)
				require.NoError(t, p.Validate())
			}
		})
	}
}

func TestValidateNamesEveryBadFieldAtOnce(t *testing.T) {
	p := retrypolicy.WorkflowNodeRetryPolicy{InitialDelay: -1, BackoffMultiplier: math.NaN(), MaxDelay: -1, Jitter: 2}
	joined, ok := p.Validate().(interface{ Unwrap() []error })
	require.True(t, ok)
	var fields []string
	for _, err := range joined.Unwrap() {
		var fe *retrypolicy.FieldError
		require.ErrorAs(t, err, &fe)
		fields = append(fields, fe.Field)
	}
	require.Equal(t, []string{"MaxAttempts", "InitialDelay", "BackoffMultiplier", "MaxDelay", "Jitter"}, fields)
	require.Error(t, retrypolicy.WorkflowNodeRetryPolicy{}.Validate(), "the zero value is not valid")
}

func TestRetriesWithoutDelayAreLegalAndWarnedOf(t *testing.T) {
	for want, p := range map[string]retrypolicy.WorkflowNodeRetryPolicy{
		"InitialDelay is 0":      {MaxAttempts: 2, BackoffMultiplier: 2},
		"BackoffMultiplier is 0": {MaxAttempts: 3, InitialDelay: time.Second},
		"MaxDelay is below":      {MaxAttempts: 2, InitialDelay: time.Second, BackoffMultiplier: 1, MaxDelay: time.Millisecond},
	} {
		require.NoError(t, p.Validate())
		require.Contains(t, strings.Join(p.Warnings(), "\n"), want)
	}
	require.Empty(t, retrypolicy.WorkflowNodeRetryPolicy{MaxAttempts: 1}.Warnings(), "one attempt has no retries")
	require.Empty(t, retrypolicy.WorkflowNodeRetryPolicy{MaxAttempts: 2, InitialDelay: time.Second}.Warnings())
}

func TestDelay(t *testing.T) {
	ms := time.Millisecond
	base := retrypolicy.WorkflowNodeRetryPolicy{InitialDelay: 100 * ms, BackoffMultiplier: 2}
	with := func(e edit) retrypolicy.WorkflowNodeRetryPolicy {
		p := base
		e(&p)
		return p
	}
	capped := with(func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.MaxDelay = 300 * ms })
	half := with(func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.Jitter = 0.5 })
	full := with(func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.Jitter = 1 })
	for _, tc := range []struct {
		name    string
		p       retrypolicy.WorkflowNodeRetryPolicy
		attempt int
		hint    time.Duration
		rand    float64
		want    time.Duration
	}{
		{"InitialDelay before the second attempt", base, 1, 0, 0.9, 100 * ms},
		{"multiplied after each further one", base, 2, 0, 0, 200 * ms},
		{"multiplied after each further one", base, 4, 0, 0, 800 * ms},
		{"capped by MaxDelay", capped, 3, 0, 0, 300 * ms},
		{"capped before jitter", with(func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.MaxDelay, p.Jitter = 300*ms, 0.5 }), 9, 0, 0.5, 225 * ms},
		{"MaxDelay below InitialDelay", with(func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.MaxDelay = ms }), 1, 0, 0, ms},
		{"jitter: rand 0 is the whole delay", half, 1, 0, 0, 100 * ms},
		{"jitter: rand 1 is 1-jitter of it", half, 1, 0, 1, 50 * ms},
		{"full jitter", full, 1, 0, 1, 0},
		{"full jitter", full, 1, 0, 0.25, 75 * ms},
		{"a hint is a floor", base, 1, 5 * time.Second, 0, 5 * time.Second},
		{"and no ceiling", base, 4, 5 * ms, 0, 800 * ms},
		{"a hint is not shortened by jitter", full, 1, ms, 1, ms},
		{"nor by the cap", capped, 1, time.Hour, 0, time.Hour},
		{"a negative hint is none", base, 1, -time.Second, 0, 100 * ms},
		{"multiplier 1", with(func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.BackoffMultiplier = 1 }), 50, 0, 0, 100 * ms},
		{"multiplier 0", with(func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.BackoffMultiplier = 0 }), 1, 0, 0, 100 * ms},
		{"multiplier 0", with(func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.BackoffMultiplier = 0 }), 2, 0, 0, 0},
		{"multiplier below 1", with(func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.BackoffMultiplier = 0.5 }), 3, 0, 0, 25 * ms},
		{"attempt 64 without a cap", base, 64, 0, 0, longest},
		{"attempt 100 without a cap", base, 100, 0, 0, longest},
		{"the largest attempt", base, math.MaxInt, 0, 0, longest},
		{"an attempt below 1 counts as 1", base, -5, 0, 0, 100 * ms},
		{"InitialDelay 0 with jitter", with(func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.InitialDelay, p.Jitter = 0, 1 }), 64, 0, 0.5, 0},
		{"InitialDelay 1 ns", with(func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.InitialDelay, p.Jitter = 1, 0.5 }), 1, 0, 0.5, 1},
		{"InitialDelay 0 and an infinite growth", with(func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.InitialDelay = 0 }), math.MaxInt, 0, 0, 0},
		{"a MaxDelay above the global cap", with(func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.MaxDelay = math.MaxInt64 }), 99, 0, 0, longest},
		{"rand that is none", half, 1, 0, math.NaN(), 100 * ms},
		{"rand above 1", half, 1, 0, 7, 50 * ms},
		{"a multiplier that is none", with(func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.BackoffMultiplier = math.NaN() }), 2, 0, 0, 0},
		{"a negative multiplier", with(func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.BackoffMultiplier = -2 }), 2, 0, 0, 0},
		{"a negative delay", with(func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.InitialDelay = -1 }), 2, 0, 0, 0},
	} {
		require.Equal(t, tc.want, tc.p.Delay(tc.attempt, tc.hint, tc.rand), tc.name)
	}
}

func FuzzDelay(f *testing.F) {
	f.Add(int64(100e6), 2.0, int64(30e9), 0.5, 1, int64(0), 0.5)
	f.Add(int64(1), 1e300, int64(0), 1.0, 64, int64(5e9), 0.99)
	f.Add(int64(0), math.Inf(1), int64(-1), math.NaN(), -1, int64(-1), 2.0)
	f.Add(int64(longest), 1.0000001, int64(0), 0.1, math.MaxInt, int64(math.MaxInt64), 0.0)
	f.Fuzz(func(t *testing.T, initial int64, mult float64, maxDelay int64, jitter float64, attempt int, hint int64, rand float64) {
		p := retrypolicy.WorkflowNodeRetryPolicy{
			MaxAttempts: 1, InitialDelay: time.Duration(initial), BackoffMultiplier: mult, MaxDelay: time.Duration(maxDelay), Jitter: jitter,
		}
		got := p.Delay(attempt, time.Duration(hint), rand)
		require.GreaterOrEqual(t, got, time.Duration(0))
		require.Equal(t, got, p.Delay(attempt, time.Duration(hint), rand), "it is a pure function")
		require.GreaterOrEqual(t, got, time.Duration(hint))

		exact := p
		exact.Jitter = 0
		d, jittered := exact.Delay(attempt, 0, rand), p.Delay(attempt, 0, rand)
		require.Equal(t, max(jittered, time.Duration(hint)), got)
		require.LessOrEqual(t, d, longest)
		require.LessOrEqual(t, jittered, d)
		if p.Validate() != nil {
			return
		}
		if p.MaxDelay > 0 {
			require.LessOrEqual(t, d, p.MaxDelay)
		}
		// A float64 holds 53 bits, so a delay of 49 days is known to half a microsecond.
		require.GreaterOrEqual(t, float64(jittered), (1-jitter)*float64(d)-1024)
		if mult >= 1 && attempt < math.MaxInt {
			require.GreaterOrEqual(t, exact.Delay(attempt+1, 0, 0)+1024, d, "a delay that grows does not shrink")
		}
	})
}
