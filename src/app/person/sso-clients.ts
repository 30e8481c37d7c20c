/** The clients of identity providers. They share connections and cached settings. */
import type { Vault } from '../../base/vault.ts'
import type { IdentityProvider } from '../../store/account/identity-provider.ts'
import { GithubProtocol } from './sso-github.ts'
import { ProviderHttp } from './sso-http.ts'
import { OidcProtocol } from './sso-oidc.ts'
import type {
  Outcome,
  ProviderCheck,
  ProviderPerson,
  ProviderProtocol,
  ProviderSettings,
  SignInAnswer,
  SignInProviders,
  SignInRequest,
} from './sso-protocol.ts'

export interface ClientOptions {
  readonly vault: Vault
  /** Whether providers of accounts may have private addresses too. */
  readonly allowPrivateAddresses: boolean
  readonly timeoutMs?: number
}

export class ProviderClients implements SignInProviders {
  readonly #options: ClientOptions
  readonly #http: ProviderHttp
  readonly #protocols: Readonly<Record<IdentityProvider['kind'], ProviderProtocol>> = {
    oidc: new OidcProtocol(),
    github: new GithubProtocol(),
  }

  constructor(options: ClientOptions) {
    this.#options = options
    this.#http = new ProviderHttp({ timeoutMs: options.timeoutMs })
  }

  begin(provider: IdentityProvider, request: SignInRequest): Promise<Outcome<URL>> {
    return this.#protocols[provider.kind].begin(this.#settingsOf(provider), request)
  }

  finish(provider: IdentityProvider, answer: SignInAnswer): Promise<Outcome<ProviderPerson>> {
    return this.#protocols[provider.kind].finish(this.#settingsOf(provider), answer)
  }

  check(provider: IdentityProvider): Promise<ProviderCheck[]> {
    return this.#protocols[provider.kind].check(this.#settingsOf(provider))
  }

  close(): Promise<void> {
    return this.#http.close()
  }

  #settingsOf(provider: IdentityProvider): ProviderSettings {
    const { issuer, account_id: accountId, client_id: clientId, client_secret_sealed: sealed } = provider
    const allowPrivate = accountId === null || this.#options.allowPrivateAddresses
    return {
      issuer,
      clientId,
      clientSecret: sealed === null ? undefined : this.#options.vault.open(sealed),
      allowPrivate,
      fetch: this.#http.fetchFor(allowPrivate),
    }
  }
}
