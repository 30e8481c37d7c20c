/** Opens the clients of identity providers. Their library is loaded only where people can sign in. */
import type { App } from '../../app/app.ts'
import type { Vault } from '../../base/vault.ts'
import type { Context, Part } from './part.ts'

export interface People extends Part {
  readonly app: Pick<App, 'people'>
}

export async function openPeople({ settings }: Context, { vault }: { readonly vault: Vault }): Promise<People> {
  const { publicUrl, signUp, allowPrivateAddresses } = settings
  if (publicUrl === undefined) return { app: {}, close: () => {} }
  const [{ ProviderClients }, { ProviderHttp }] = await Promise.all([
    import('../../app/person/sso-clients.ts'),
    import('../../app/person/sso-http.ts'),
  ])
  const providers = new ProviderClients({ vault, allowPrivateAddresses })
  const http = new ProviderHttp()
  const read = http.fetchFor(allowPrivateAddresses)
  const readDocument = (url: string): Promise<Response> => read(url, { headers: { Accept: 'application/json' } })
  return {
    app: { people: { publicUrl, signUp, providers, readDocument } },
    close: () => Promise.all([providers.close(), http.close()]),
  }
}
