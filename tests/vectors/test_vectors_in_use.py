"""Which folders of vectors are there, and why is one of them not run?"""

from pathlib import Path

HERE = Path(__file__).parent

NOT_OURS = {
    "scopeblind": "receipts of another schema; what they share with ours, JCS and Ed25519, is in jcs and ed25519",
    "LICENSES": "texts",
}


def test_every_folder_is_run_or_known_not_to_concern_us(vectors):
    texts = [path.read_text() for path in HERE.glob("test_*.py") if path != Path(__file__)]
    folders = {path.name for path in vectors.iterdir() if path.is_dir()} - NOT_OURS.keys()
    unused = {name for name in folders if not any(name in text for text in texts)}
    assert not unused
    assert len(folders) >= 6
