/**
 * Limits which images a customer may have the nodes pull. The nodes are inside the operator's network and report why a
 * pull failed, so a name such as `10.0.0.5:22/x` would reveal open ports there: registries must have public addresses
 * or be listed by the operator. The nodes resolve names again; only a firewall catches a name that changes in between.
 */
import { checkOutboundUrl } from '../../base/net/outbound.ts'
import { ENGINE_REPOSITORY } from '../../contract/engine-image.ts'
import { NeverStarts } from '../../runtimes/runtime.ts'
import { parseImageName } from '../../runtimes/image-name.ts'
import type { ClusterConfig } from './config.ts'

/** Returns the image name for the pod. Throws `NeverStarts`. */
export async function checkImage(
  image: { readonly name: string; readonly tag: string | null } | null,
  { images, serving }: Pick<ClusterConfig, 'images' | 'serving'>,
): Promise<string> {
  if (image === null && images.default === undefined) {
    throw new NeverStarts('image_invalid', 'The order names no image, and the cluster has no default one.')
  }
  const { full, host, repository } = parseImageName(image?.name ?? images.default ?? '', image?.tag ?? null)
  if (repository === ENGINE_REPOSITORY) {
    if (serving !== undefined) return serving.engineImage
    throw new NeverStarts('image_unavailable', 'This cluster does not have the image of our engines.')
  }
  // The operator's own choice needs no rule.
  if (image === null || host === undefined || images.allowedRegistries.includes(host)) return full
  const fault = await checkOutboundUrl(`https://${host}/`, false)
  if (fault === undefined) return full
  throw new NeverStarts(
    'registry_refused',
    `This cluster does not pull images from ${host}: it is not a public registry.`,
  )
}
