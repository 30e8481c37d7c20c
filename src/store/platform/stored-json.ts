/** JSON of rows that older versions of the server, or migrations, have written. */
import type { z } from 'zod'

/**
 * The value with the defaults of fields that it lacks. One that today's rules would reject stays as it is: a rule that
 * became stricter must not take away what a customer has.
 */
export function withDefaults<Schema extends z.ZodType>(schema: Schema, value: z.output<Schema>): z.output<Schema> {
  const result = schema.safeParse(value)
  return result.success ? result.data : value
}
