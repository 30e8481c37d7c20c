/**
 * `hf:OWNER/REPO/PATH[@REVISION]`: a file of a repository on a model hub. The hub is a setting; mirrors use the same
 * paths. The hub redirects to its own storage, often on another origin, which must not get the token.
 */
import { fail, type Result } from '../../contract/result.ts'
import type { Downloader } from '../download/downloader.ts'
import type { Piece, PieceRequest } from './piece.ts'
import { fetchAddress } from './source-https.ts'

const DEFAULT_REVISION = 'main'

export interface Hub {
  readonly endpoint: string
  /** null: public files only. */
  readonly token: string | null
}

export async function fetchHubPiece(
  downloader: Downloader,
  hub: Hub | null,
  request: PieceRequest,
): Promise<Result<Piece>> {
  const url = hubUrl(hub, request.source)
  if (!url.ok) return url
  return fetchAddress(downloader, request, {
    url: url.value,
    trustedOrigin: new URL(url.value).origin,
    authorization: hub?.token === null || hub?.token === undefined ? null : `Bearer ${hub.token}`,
  })
}

function hubUrl(hub: Hub | null, source: string): Result<string> {
  if (hub === null || !URL.canParse(hub.endpoint)) {
    return fail('no_hub', { source })
  }
  const parsed = /^hf:([\w.-]+)\/([\w.-]+)\/(.+?)(?:@([^@]+))?$/.exec(source)
  const [, owner = '', repo = '', path = '', revision = DEFAULT_REVISION] = parsed ?? []
  const names = [owner, repo, ...path.split('/')]
  if (parsed === null || names.some((name) => name === '' || name === '.' || name === '..')) {
    return fail('bad_source', { message: `${source} does not have the form hf:OWNER/REPO/PATH[@REVISION].` })
  }
  const steps = [owner, repo, 'resolve', revision, ...path.split('/')].map((step) => encodeURIComponent(step))
  return { ok: true, value: `${hub.endpoint.replace(/\/+$/, '')}/${steps.join('/')}` }
}
