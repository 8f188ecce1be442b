package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/wneessen/go-mail"
)

// checkMailServer connects to the server for mail, and sends none.
func checkMailServer(ctx context.Context, x *examination) ([]Finding, error) {
	if x.env.Settings.SMTPURL == "" {
		return []Finding{{Level: Warning, Text: "nobody gets mail when a webhook fails or is turned off", Do: "set LEDGERFEED_SMTP_URL and LEDGERFEED_MAIL_FROM"}}, nil
	}
	at, err := url.Parse(x.env.Settings.SMTPURL)
	if err != nil {
		return nil, errors.New("cannot read LEDGERFEED_SMTP_URL: it is no address") // without err, which has the password
	}
	port := at.Port()
	switch {
	case port != "":
	case at.Scheme == "smtps":
		port = strconv.Itoa(mail.DefaultPortSSL)
	default:
		port = strconv.Itoa(mail.DefaultPort)
	}
	address := net.JoinHostPort(at.Hostname(), port)
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return []Finding{{Level: Error, Text: "cannot connect to the mail server: " + err.Error(), Do: "see that LEDGERFEED_SMTP_URL is right and that this machine may connect to it"}}, nil //nolint:nilerr // it is the finding
	}
	if err := conn.Close(); err != nil {
		return nil, fmt.Errorf("cannot end the connection to the mail server: %w", err)
	}
	return ok("%s accepts connections", address), nil
}

// checkIdentityProvider reads the provider's discovery document.
func checkIdentityProvider(ctx context.Context, x *examination) ([]Finding, error) {
	issuer := x.env.Settings.OIDCIssuer
	if issuer == "" {
		return ok("none: people sign in with links"), nil
	}
	if _, err := oidc.NewProvider(ctx, issuer); err != nil {
		return []Finding{{
			Level: Error, Text: fmt.Sprintf("cannot read the discovery document of %s: %v", issuer, err),
			Do: "see that LEDGERFEED_OIDC_ISSUER is right and that this machine may connect to it; sign-in links work meanwhile",
		}}, nil
	}
	return ok("%s answers", issuer), nil
}
