/** Not written yet. */
import { Page } from '../ui/page.tsx'

export function InstancePage() {
  return <Page title="Instance">…</Page>
}
