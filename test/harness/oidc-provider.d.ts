/** The part of oidc-provider that tests use; the package has no types. */
declare module 'oidc-provider' {
  import type { IncomingMessage, ServerResponse } from 'node:http'

  interface Context {
    readonly oidc: {
      readonly route?: string
      readonly client: { readonly clientId: string }
      readonly session: { readonly accountId: string }
      readonly provider: Provider
    }
    readonly path: string
    body: Record<string, unknown>
  }

  interface Grant {
    addOIDCScope(scope: string): void
    save(): Promise<string>
  }

  export default class Provider {
    constructor(issuer: string, configuration: object)
    readonly Grant: new (of: { clientId: string; accountId: string }) => Grant
    proxy: boolean
    use(middleware: (context: Context, next: () => Promise<void>) => Promise<void>): void
    callback(): (request: IncomingMessage, response: ServerResponse) => Promise<void>
    interactionFinished(request: IncomingMessage, response: ServerResponse, result: object): Promise<void>
    on(event: string, listener: (context: unknown, error: Error) => void): this
  }
}
