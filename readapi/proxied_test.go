//go:build outside

package readapi_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// leastCarried is what TestConformanceThroughAProxy must have carried; it
// carries some 14,700 answers, a few less or more with the date.
const (
	leastCarried        = 13_000
	leastCarriedOfSlice = 6_000
)

// carrier sends the requests of stands to their servers in another way than directly.
type carrier interface {
	carryFor(s *stand, method, path, key string, headers ...string) reply
}

// between is what is before the stands' servers while a test runs the conformance
// suite. Such a test is not parallel, so no other test sees it.
var between atomic.Pointer[carrier]

// exchange makes a request, through what is between, if there is anything.
func (s *stand) exchange(method, path, key string, headers ...string) reply {
	s.t.Helper()
	if c := between.Load(); c != nil {
		return (*c).carryFor(s, method, path, key, headers...)
	}
	return send(s.t, s.server, method, path, key, headers...)
}

// runSuite runs the conformance suite with a carrier before every stand's server.
func runSuite(t *testing.T, c carrier) {
	t.Helper()
	between.Store(&c)
	defer between.Store(nil)
	t.Run("suite", func(t *testing.T) { // ends when all of it has ended
		for name, test := range conformance() {
			t.Run(name, test)
		}
	})
}

// carryFor sends a request through prism if the answer is to be judged.
func (p *proxy) carryFor(s *stand, method, path, key string, headers ...string) reply {
	s.t.Helper()
	if s.contract == nil || !carries(s.contract, method, path) {
		return send(s.t, s.server, method, path, key, headers...)
	}
	answer := func() (reply, error) {
		return ask(s.t.Context(), s.server, method, path, key, headers...)
	}
	r, found, err := p.carry(s.t.Context(), answer, method, path, key, headers...)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	if len(found) > 0 {
		s.t.Errorf("%s %s: prism finds in the answer %d: %+v", method, path, r.status, found)
	}
	return r
}

// conformance are the tests whose answers are judged.
func conformance() map[string]func(*testing.T) {
	return map[string]func(*testing.T){
		"TestALoggerForErrors":                   TestALoggerForErrors,
		"TestAnswersSayTheirPosition":            TestAnswersSayTheirPosition,
		"TestAtLeastHasAForm":                    TestAtLeastHasAForm,
		"TestAddressBehindProxies":               TestAddressBehindProxies,
		"TestAnEventWaitsForItsData":             TestAnEventWaitsForItsData,
		"TestChecksRunInOrder":                   TestChecksRunInOrder,
		"TestCompression":                        TestCompression,
		"TestConditionalRequests":                TestConditionalRequests,
		"TestCreditHistory":                      TestCreditHistory,
		"TestCursorsAreBound":                    TestCursorsAreBound,
		"TestDatabaseAway":                       TestDatabaseAway,
		"TestDescription":                        TestDescription,
		"TestDetailSaysWhatIsWrong":              TestDetailSaysWhatIsWrong,
		"TestEventsOfAnomaliesAreShown":          TestEventsOfAnomaliesAreShown,
		"TestEventsThatNeedPay":                  TestEventsThatNeedPay,
		"TestEventsPassTheirRetention":           TestEventsPassTheirRetention,
		"TestEveryListShowsWhatTheFoldSays":      TestEveryListShowsWhatTheFoldSays,
		"TestFaultsOfTheServer":                  TestFaultsOfTheServer,
		"TestHeadAnswersAsGet":                   TestHeadAnswersAsGet,
		"TestInstancesAreOne":                    TestInstancesAreOne,
		"TestKeyInURL":                           TestKeyInURL,
		"TestAPaginatorFollowsLinks":             TestAPaginatorFollowsLinks,
		"TestTotalsAreSums":                      TestTotalsAreSums,
		"TestTotalsWithTooManyGroups":            TestTotalsWithTooManyGroups,
		"TestLargeHeaders":                       TestLargeHeaders,
		"TestMe":                                 TestMe,
		"TestMethods":                            TestMethods,
		"TestMovedWorkspace":                     TestMovedWorkspace,
		"TestOneLineForARequest":                 TestOneLineForARequest,
		"TestPagesWithoutAKey":                   TestPagesWithoutAKey,
		"TestRateLimits":                         TestRateLimits,
		"TestRefusalsLookAlike":                  TestRefusalsLookAlike,
		"TestNothingIsSignedWithoutAKey":         TestNothingIsSignedWithoutAKey,
		"TestRepairsShow":                        TestRepairsShow,
		"TestRequestID":                          TestRequestID,
		"TestRequestsAreKept":                    TestRequestsAreKept,
		"TestStatementsOfARequest":               TestStatementsOfARequest,
		"TestTheJudgeSeesFaultsOfProblems":       TestTheJudgeSeesFaultsOfProblems,
		"TestThousandsOfWrongParameters":         TestThousandsOfWrongParameters,
		"TestUnchangedNeedsNoReadTable":          TestUnchangedNeedsNoReadTable,
		"TestUnknownPaths":                       TestUnknownPaths,
		"TestACursorOfALogThatWentBack":          TestACursorOfALogThatWentBack,
		"TestAnEventOfALogThatWentBack":          TestAnEventOfALogThatWentBack,
		"TestAFollowerOfATimeToCome":             TestAFollowerOfATimeToCome,
		"TestCursorsOfEarlierVersions":           TestCursorsOfEarlierVersions,
		"TestCodesOfALogThatWentBack":            TestCodesOfALogThatWentBack,
		"TestWhatAKeyMayNotSeeIsSteppedOverOnce": TestWhatAKeyMayNotSeeIsSteppedOverOnce,
		"TestIncludeIsAParameter":                TestIncludeIsAParameter,
		"TestRemovedRowsOfOlderRules":            TestRemovedRowsOfOlderRules,
		"TestRowsThatLeave":                      TestRowsThatLeave,
		"TestWrongParameters":                    TestWrongParameters,
	}
}

// apart are the tests that do not go through the proxy, by the reason.
func apart() map[string][]string {
	return map[string][]string{
		"is about forms of which prism would choose one by itself": {
			"TestAWholeListIsItsPages", "TestAWholeListGoesOn", "TestAWholeListHasNoLimit", "TestAcceptChoosesTheForm", "TestCursorsAndKeys",
			"TestAWholeListAtItsPath", "TestTotalsForms",
		},
		"judges no answers, or asks none": {
			"TestTheCostOfAWholeList", "TestAListWithoutAConnectionIsRefused", "TestAWholeListTakesLittleMemory", "TestConditionsOfWholeLists",
			"TestATableThatHasToBeWaitedFor", "TestAReaderAnswersAsTheAPI", "TestAReaderTellsWhatWasRemoved", "TestAReaderGivesUp", "TestEndpointsAreAllThereAre", "TestRootLeadsToTheReference", "TestEveryProtectedFieldHasACanary", "TestFollowersWhileRowsChange",
			"TestHiddenValuesChangeNothing", "TestCachedAnswersAreBounded", "TestCachedAnswersAreNeverOld", "TestTheDescriptionLeavesRoom",
			"TestNothingLeaks", "TestPlans", "TestRowsAreNeverOld", "TestRowsThatAreReadTogether", "TestSince",
			"TestTwoInstances", "TestTwoInstancesUnderLoad",
		},
		"is about connections, which a proxy would make": {
			"TestASlowedAddressCostsLittle", "TestAWorkspaceHasItsShareOfTheConnections", "TestAWorkspaceWithSlowPagesHasOneConnection", "TestCallersThatHangUp", "TestPagesThatCannotBeRead",
			"TestAWholeListThatIsBrokenOff", "TestAWholeListOverHTTP2", "TestAWholeListWhoseTimeIsOver", "TestAReaderThatGoesAway", "TestTimesOfAWholeList", "TestWhatIsSentHoldsNoConnection", "TestAPatientReader", "TestPlacesOfWholeLists", "TestListsLetPagesGoFirst", "TestAServerThatStopsBreaksListsOff", "TestARevokedKeyGetsNoMoreOfAList",
			"TestAWholeListWhileRowsChange", "TestTheTrailerOfAWholeList",
			"TestDrain", "TestServerIsBounded", "TestSlowCallers", "TestWhatTheServerRefusesItself", "TestWhoDoesNotRead",
		},
		"has requests wait beside the test, which go to the server directly": {
			"TestAListHoldsItsAnswer", "TestALostNotification", "TestAPositionAndAWait", "TestAPositionThatDoesNotCome", "TestAWaitCountsOnce",
			"TestAWaitEndsWithItsTime", "TestAWaitingKeyIsRevoked", "TestAnAnswerReachesItsPosition", "TestDrainEndsWaits", "TestPrefer",
			"TestWaitingCostsNoStatement", "TestCheckpointIsWaitedFor", "TestCosignaturesAreServed", "TestWaitsAreBounded", "TestWaitsForPositionsAreBounded", "TestWaitsOutliveTheServersTimeouts", "TestWaitingIsNoWork",
			"TestASharedReadIsEnough", "TestAWholeListThatIsBehindIsNotRead", "TestAnAnswerKeepsNoPlaceToWait", "TestAWorkspaceLeavesOthersPlacesToWait", "TestWhatShowsNothingEndsNoWait",
		},
		"is about HTTP/2 without TLS, which a proxy would end": {
			"TestAHundredWaitsOverOneConnection", "TestErrorsAreNotRewrittenInHTTP2", "TestHTTP2IsBounded", "TestIdleHTTP2",
			"TestAWholeListOverHTTP2WaitsForTheDatabase", "TestRequestsOfUnknownCallersAreBounded",
		},
		"is about paths with a slash within a parameter, which no description of OpenAPI can match": {
			"TestTilesAreThoseOfTheKey", "TestFeedProvesItself", "TestIndexComesWithTheTree", "TestEveryChangedBitIsFound", "TestTesseraClientReadsTheFeed",
		},
		"is about the server that an answer was read from": {
			"TestTheCopyAnswersAsThePrimary", "TestTheCopyIsBehind", "TestReadBeside", "TestACopyThatFails", "TestACopyThatIsLostWhileItIsRead", "TestConflictsWithRecovery", "TestAWaitEndsWithWhatItWaitedFor",
			"TestCursorsOfAnotherPlace", "TestVersionsAreTheirOwn",
		},
		"counts goroutines, of which the proxy's connections have some":        {"TestRunEnds"},
		"spoils answers; TestTheProxySeesFaults has prism find the same":       {"TestTheJudgeSeesFaults"},
		"looks at what is kept of callers, in whose place a proxy would stand": {"TestErrorsAreExplained", "TestRequestsHoldNoSecrets", "TestRequestsHoldNothingOfTheirKey"},
		"sends headers that are too large for prism":                           {"TestEveryProblemHasACode"},
		"is of these files": {
			"TestConformanceBehindNginx", "TestConformanceBehindCaddy", "TestAddressBehindAFrontProxy", "TestConformanceThroughAProxy", "TestTheProxySeesFaults", "TestNoTestIsForgottenByTheProxy",
		},
	}
}

// TestConformanceThroughAProxy runs the conformance suite once more with prism
// before every stand's server, and prism finds nothing.
func TestConformanceThroughAProxy(t *testing.T) {
	p := startProxy(t)
	runSuite(t, p)
	least := testkit.Scale(leastCarriedOfSlice, leastCarried)
	if n := p.carried.Load(); n < int64(least) {
		t.Errorf("%d answers went through prism, want %d at least", n, least)
	} else {
		t.Logf("%d answers went through prism", n)
	}
}

// TestNoTestIsForgottenByTheProxy: every test is listed here, either as one that also goes
// through the proxy or with a reason why not.
func TestNoTestIsForgottenByTheProxy(t *testing.T) {
	t.Parallel()
	want := slices.Collect(maps.Keys(conformance()))
	for _, names := range apart() {
		want = append(want, names...)
	}
	slices.Sort(want)
	if got := testsHere(t); !slices.Equal(got, want) {
		t.Errorf("there are\n%q\nknown are\n%q", got, want)
	}
}

// testsHere are the names of the package's tests, in order.
func testsHere(t *testing.T) []string {
	t.Helper()
	named := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	var names []string
	for _, file := range testkit.Must(filepath.Glob("*_test.go"))(t) {
		for _, match := range named.FindAllSubmatch(testkit.Must(os.ReadFile(file))(t), -1) {
			names = append(names, string(match[1]))
		}
	}
	slices.Sort(names)
	return names
}
