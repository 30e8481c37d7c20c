/** Images that virtual machines boot from. */
import { fail, failField, ok, type Result } from '../../contract/result.ts'
import { writeAudit } from '../../store/platform/audit.ts'
import { countBaseImages, deleteBaseImage, insertBaseImage, type BaseImage } from '../../store/host/base-image.ts'
import type { Tx } from '../../store/platform/database.ts'
import type { Actor } from '../app.ts'

export const MAX_BASE_IMAGES = 1_000

export async function addBaseImage(
  tx: Tx,
  actor: Actor,
  image: Omit<BaseImage, 'created_at'>,
): Promise<Result<BaseImage>> {
  const added = await insertBaseImage(tx, image)
  if (added === undefined) return failField(['name'], 'name_in_use', { name: image.name })
  if ((await countBaseImages(tx)) > MAX_BASE_IMAGES) {
    return fail('quota_exceeded', { quota: `${MAX_BASE_IMAGES} images` })
  }
  const { arch, source, sha256, is_default: isDefault } = added
  await writeAudit(tx, {
    actor: actor.keyId,
    action: 'base_image.add',
    subject: `base_image:${added.name}`,
    detail: { arch, source, sha256, isDefault },
  })
  return ok(added)
}

export async function removeBaseImage(tx: Tx, actor: Actor, name: string): Promise<Result<void>> {
  if (!(await deleteBaseImage(tx, name))) {
    return fail('base_image_not_found')
  }
  await writeAudit(tx, { actor: actor.keyId, action: 'base_image.remove', subject: `base_image:${name}` })
  return ok(undefined)
}
