/** Opens the model catalog of the settings; without one, the built-in catalog is in use. */
import type { App } from '../../app/app.ts'
import { makeDownloader } from '../../artifacts/download/downloader.ts'
import { SECOND_MS } from '../../base/instant.ts'
import { OperatorCatalog } from '../inference/catalog-source.ts'
import type { Context, Part } from './part.ts'

const READ_WITHIN_MS = 30 * SECOND_MS

export interface ModelCatalogPart extends Part {
  readonly app: Pick<App, 'catalog'>
}

export async function openModelCatalog({ settings, dataDir, log }: Context): Promise<ModelCatalogPart> {
  if (settings.catalog === undefined) return { app: {}, close: () => {} }
  // The server starts with its last copy rather than wait for retries; the catalog is read again within the hour.
  const downloader = makeDownloader({ allowPrivate: settings.allowPrivateAddresses, limits: { maxIdleAttempts: 0 } })
  const catalog = await OperatorCatalog.open({
    location: settings.catalog,
    dataDir,
    warn: (problem) => log.warn({ catalog: settings.catalog }, problem),
    readUrl: async (url, maxBytes) => {
      const signal = AbortSignal.timeout(READ_WITHIN_MS)
      const trustedOrigin = new URL(url).origin
      const accept = 'application/json'
      const text = await downloader.text({ url, trustedOrigin, authorization: null, accept, maxBytes, signal })
      if (text.ok) return text.value
      throw new Error(signal.aborted ? `The catalog took longer than ${READ_WITHIN_MS / SECOND_MS} s.` : text.message)
    },
  })
  return {
    app: { catalog },
    close: async () => {
      catalog.close()
      await downloader.close()
    },
  }
}
