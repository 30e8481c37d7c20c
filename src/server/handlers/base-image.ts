/** Images of virtual machines over HTTP, for operators. */
import { ok } from '../../contract/result.ts'
import { addBaseImage, MAX_BASE_IMAGES, removeBaseImage } from '../../app/supply/base-image.ts'
import { createOnce } from '../../app/idempotency.ts'
import { listBaseImages, type BaseImage } from '../../store/host/base-image.ts'
import { transact } from '../../store/platform/database.ts'
import type { Handlers } from '../http/handler.ts'

export const baseImageHandlers = {
  listBaseImages: async (app) =>
    ok({ images: (await listBaseImages(app.database.db, MAX_BASE_IMAGES)).map(imageRecord) }),

  addBaseImage: (app, { actor, body, operation, idempotencyKey }) =>
    createOnce(app, actor, { key: idempotencyKey, operation, request: body }, async (tx) => {
      const { loginUser: login_user, isDefault: is_default, ...image } = body
      const result = await addBaseImage(tx, actor, { ...image, login_user, is_default })
      return result.ok ? ok(imageRecord(result.value)) : result
    }),

  deleteBaseImage: async (app, { actor, params }) => {
    const removed = await transact(app.database, (tx) => removeBaseImage(tx, actor, params.id))
    return removed.ok ? ok({ message: 'Image removed; new machines no longer use it' }) : removed
  },
} satisfies Partial<Handlers>

function imageRecord(image: BaseImage) {
  return {
    name: image.name,
    arch: image.arch,
    source: image.source,
    sha256: image.sha256,
    loginUser: image.login_user,
    isDefault: image.is_default,
    createdAt: image.created_at,
  }
}
