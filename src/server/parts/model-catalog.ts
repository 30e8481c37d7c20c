/** Opens the model catalog of the settings; without one, the built-in catalog is in use. */
import { request } from 'undici'
import type { App } from '../../app/app.ts'
import { SECOND_MS } from '../../base/instant.ts'
import { outboundAgent } from '../../base/net/outbound.ts'
import { OperatorCatalog } from '../inference/catalog-source.ts'
import type { Context, Part } from './part.ts'

const READ_WITHIN_MS = 30 * SECOND_MS

export interface ModelCatalogPart extends Part {
  readonly app: Pick<App, 'catalog'>
}

export async function openModelCatalog({ settings, dataDir, log }: Context): Promise<ModelCatalogPart> {
  if (settings.catalog === undefined) return { app: {}, close: () => {} }
  const agent = outboundAgent({ allowPrivate: settings.allowPrivateAddresses, timeoutMs: READ_WITHIN_MS })
  const catalog = await OperatorCatalog.open({
    location: settings.catalog,
    dataDir,
    warn: (problem) => log.warn({ catalog: settings.catalog }, problem),
    readUrl: async (url, maxBytes) => {
      const signal = AbortSignal.timeout(READ_WITHIN_MS)
      const { statusCode, body } = await request(url, { dispatcher: agent, signal })
      if (statusCode !== 200) {
        await body.dump()
        throw new Error(`the server of the catalog answered with status ${statusCode}`)
      }
      const chunks: Buffer[] = []
      let bytes = 0
      for await (const chunk of body as AsyncIterable<Buffer>) {
        bytes += chunk.length
        if (bytes > maxBytes) throw new Error(`the catalog is larger than ${maxBytes / 1e6} MB`)
        chunks.push(chunk)
      }
      return Buffer.concat(chunks).toString('utf8')
    },
  })
  return {
    app: { catalog },
    close: async () => {
      catalog.close()
      await agent.close()
    },
  }
}
