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
  const { ProviderClients } = await import('../../app/person/sso-clients.ts')
  const providers = new ProviderClients({ vault, allowPrivateAddresses })
  return { app: { people: { publicUrl, signUp, providers } }, close: () => providers.close() }
}
