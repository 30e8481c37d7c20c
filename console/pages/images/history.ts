/**
 * Images stored in this browser, newest first. Without storage, as in a private window, they last as long as the page.
 */
import type { GeneratedImage } from './image.ts'

/** An image is a file of a few hundred kilobytes. */
export const MAX_IMAGES = 24
const STORE = 'images'

export interface KeptImage extends Omit<GeneratedImage, 'url'> {
  readonly file: Blob
  readonly atMs: number
}

export async function readImages(accountId: string): Promise<KeptImage[]> {
  const all = await use(accountId, 'readonly', (store) => store.getAll() as IDBRequest<KeptImage[]>)
  return (all ?? []).toSorted((a, b) => b.atMs - a.atMs)
}

/** Stores an image and drops the oldest ones above the limit. */
export async function keepImage(accountId: string, image: KeptImage): Promise<void> {
  await use(accountId, 'readwrite', (store) => store.put(image))
  const old = (await readImages(accountId)).slice(MAX_IMAGES)
  for (const { requestId } of old) await use(accountId, 'readwrite', (store) => store.delete(requestId))
}

export async function clearImages(accountId: string): Promise<void> {
  await use(accountId, 'readwrite', (store) => store.clear())
}

/** undefined: the browser stores nothing. */
async function use<T>(
  accountId: string,
  mode: IDBTransactionMode,
  act: (store: IDBObjectStore) => IDBRequest<T>,
): Promise<T | undefined> {
  try {
    const opening = indexedDB.open(`berth.images.${accountId}`, 1)
    opening.addEventListener('upgradeneeded', () => {
      opening.result.createObjectStore(STORE, { keyPath: 'requestId' })
    })
    const database = await outcome(opening)
    try {
      return await outcome(act(database.transaction(STORE, mode).objectStore(STORE)))
    } finally {
      database.close()
    }
  } catch (error) {
    if (error instanceof DOMException) return undefined
    throw error
  }
}

function outcome<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.addEventListener('success', () => resolve(request.result))
    request.addEventListener('error', () => reject(request.error ?? new DOMException('storage failed')))
  })
}
