/** Not written yet. */
import { Page } from '../ui/page.tsx'

export function VolumesPage() {
  return <Page title="Volumes">…</Page>
}
