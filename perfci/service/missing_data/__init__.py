"""Missing data: reports that are late, and the incidents they open."""
